"""The two kinds of text in a trace, cleaned once per distinct value: names and JSON arguments."""

from __future__ import annotations

import contextlib
import json
import re

from solscope.patterns import lazy_pattern

_SPACE_OUTSIDE_STRINGS = lazy_pattern(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def decode_text(raw: bytes | str) -> str:
    """Decode the raw text between two JSON quotes; never fails."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", errors="replace")
    if isinstance(raw, bytes) and "\\" in text:
        # A stray backslash: keep the text unchanged.
        with contextlib.suppress(ValueError):
            text = json.loads(f'"{text}"', strict=False)
    # Lone surrogates are valid in JSON and in Python, and in nothing else.
    return text.encode("utf-8", errors="replace").decode() if not text.isascii() else text


def compact_json(raw: bytes) -> str:
    """Raw JSON without white space between tokens."""
    text = raw.decode("utf-8", errors="replace")
    if not (" " in text or "\n" in text or "\t" in text or "\r" in text):
        return text
    pieces = text.split('"')
    if "\\" in text or len(pieces) % 2 == 0:
        return _SPACE_OUTSIDE_STRINGS.sub(lambda m: m.group(1) or "", text)
    # Without escapes, every second piece is the inside of a string.
    pieces[::2] = ["".join(piece.split()) for piece in pieces[::2]]
    return '"'.join(pieces)
