"""Text files end with one newline, and no line with spaces.

    python scripts/check_line_ends.py [--fix] FILE ...

Prints the files that do not, and exits with 1; with `--fix` it also corrects them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

_SPACES = re.compile(rb"[ \t]+(?=\r?\n)")


def corrected(text: bytes) -> bytes:
    """The text with its lines and its end as they should be."""
    return _SPACES.sub(b"", text.rstrip() + b"\n") if text.strip() else b""


def main(arguments: Sequence[str]) -> int:
    """Check files, and correct them where that is asked for."""
    fix = "--fix" in arguments
    wrong = []
    for path in (Path(argument) for argument in arguments if argument != "--fix"):
        before = path.read_bytes()
        after = corrected(before)
        if b"\0" in before or before == after:
            continue
        wrong.append(path)
        if fix:
            path.write_bytes(after)
    for path in wrong:
        print(f"{path}: {'corrected' if fix else 'line ends'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
