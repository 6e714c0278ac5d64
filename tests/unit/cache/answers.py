"""Run commands on profiles in a process of its own: `python answers.py OUT FILE...`.

Writes what each command prints as JSON to OUT, one file per command and profile, and, to
`OUT/readings`, the profiles that a reader read. Without a cache, which has a profile for the next
command, this process remembers it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

COMMANDS = ("show", "kernels", "layers", "operators", "hotspots")


def answer(arguments: list[str]) -> str:
    from solscope.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return f"{code}\n{out.getvalue()}\n{err.getvalue()}"


def main(folder: Path, files: list[str]) -> None:
    from tests.read_once import install, remembering

    install()
    with remembering() if os.environ["SOLSCOPE_NO_CACHE"] else contextlib.nullcontext():
        answer_all(folder, files)


def answer_all(folder: Path, files: list[str]) -> None:
    from solscope.readers.opening import Opening

    read, reading = Opening._read, []

    def noted(self: Opening) -> object:
        reading.append(self._asked)
        return read(self)

    Opening._read = noted  # type: ignore[method-assign, assignment]
    folder.mkdir()
    for number, file in enumerate(files):
        for command in COMMANDS:
            text = answer([command, "--json", file])
            (folder / f"{number}-{command}").write_text(text, encoding="utf-8")
    (folder / "readings").write_text("\n".join(reading), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
