"""Count the files that a diagnosis goes through, and how often it comes back to one.

    python scripts/count_walk.py NORMAL ABNORMAL
    python scripts/count_walk.py demo:h200-normal demo:h200-slow --show

A crossing is a call from a function in one file of `solscope/diagnose` to one in another, counted
once for each pair of files. The first crossing into a file leads on; every other one is a return,
to a file that the reader has seen before. What runs while modules are imported does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


@dataclass(frozen=True)
class Walk:
    """Files that call each other."""

    crossings: frozenset[tuple[str, str]]
    """Caller and callee, as paths below the package."""

    @property
    def files(self) -> int:
        return len({file for crossing in self.crossings for file in crossing})

    @property
    def returns(self) -> int:
        """Crossings beyond those that enter each file, but the first, once."""
        return len(self.crossings) - max(0, self.files - 1)


def walk(arguments: Sequence[str], folder: str = "diagnose") -> Walk:
    """Run a command of solscope, and note who calls whom below a folder of the package."""
    import solscope
    from solscope.cli import run

    root = Path(solscope.__file__).parent
    below = str(root / folder) + os.sep
    crossings: set[tuple[str, str]] = set()

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_function(frame.f_code, below):
            return
        caller = _caller(frame, str(root))
        if caller is not None and _is_function(caller, below):
            files = caller.co_filename, frame.f_code.co_filename
            if files[0] != files[1]:
                crossings.add((_name(files[0], below), _name(files[1], below)))

    sys.setprofile(called)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            code = run(arguments)
    finally:
        sys.setprofile(None)
    if code not in (0, 1):
        raise SystemExit(code)
    return Walk(frozenset(crossings))


def _is_function(code: CodeType, below: str) -> bool:
    """Whether it is the code of a function, not of a class or module, in the folder."""
    return code.co_filename.startswith(below) and bool(code.co_flags & CO_OPTIMIZED)


def _caller(frame: FrameType, root: str) -> CodeType | None:
    """The nearest caller that belongs to solscope: libraries and generated code are passed over."""
    above = frame.f_back
    while above is not None and not above.f_code.co_filename.startswith(root):
        above = above.f_back
    return None if above is None else above.f_code


def _name(file: str, below: str) -> str:
    return file.removeprefix(below).removesuffix(".py")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs=2, metavar="RUN", help="the normal and the abnormal run")
    parser.add_argument("--show", action="store_true", help="list the crossings")
    options = parser.parse_args(argv)
    result = walk(["diagnose", *options.runs, "--json"])
    print(f"{result.files} files, {len(result.crossings)} crossings, {result.returns} returns")
    if options.show:
        for caller, callee in sorted(result.crossings, key=lambda crossing: crossing[::-1]):
            print(f"  {caller} -> {callee}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
