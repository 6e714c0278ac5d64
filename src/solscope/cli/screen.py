"""What the terminal can show: its width, colors, block characters."""

from __future__ import annotations

import os
import shutil
import sys


def terminal_width() -> int:
    """Columns of the terminal; 120 in a pipe, or what COLUMNS says."""
    return max(60, shutil.get_terminal_size((120, 40)).columns)


def use_color() -> bool:
    """Colors only on a terminal that has them, and not when NO_COLOR is set."""
    return _on_screen() and not os.environ.get("NO_COLOR")


def can_draw() -> bool:
    """Bars and sparklines only on a terminal that can show block characters.

    NO_COLOR does not forbid them: it asks for no colors, and they say what they say without.
    """
    if not _on_screen():
        return False
    try:
        "▁█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _on_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
