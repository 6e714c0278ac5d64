"""Measure from a clone, without the dependencies of solscope: OUT.toml [NAME]."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run by its path, which leaves only this folder on the path of modules
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from solscope.errors import SolscopeError
from solscope.measure import measure
from solscope.measure.file import check_free, write


def main(arguments: list[str]) -> int:
    """Measure without the rest of solscope: OUT.toml [NAME]."""
    if not 1 <= len(arguments) <= 2:
        _log("usage: python3 src/solscope/measure OUT.toml [NAME]")
        return 2
    path = Path(arguments[0])
    try:
        check_free(path, force=False)
        write(measure(_log, arguments[1] if len(arguments) == 2 else None), path)
    except SolscopeError as error:
        _log(f"solscope: {error}")
        return 2
    _log(f"wrote {path}")
    return 0


def _log(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
