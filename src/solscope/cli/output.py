"""Where commands write: a file, a folder, or standard output, which is called `-`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

STDOUT = Path("/dev/stdout")
"""What `-` stands for; a file of that name is `./-`."""


class OutputPath(click.Path):
    """A file or folder to write; `-` only where the command can write to standard output."""

    def __init__(self, what: str = "file", *, stdout: bool = False) -> None:
        super().__init__()
        self.what, self.stdout = what, stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or `STDOUT`."""
        if str(value) == "-" and self.stdout:
            return STDOUT
        if str(value) == "-":
            self.fail(f"this cannot go to standard output: name a {self.what}", param, ctx)
        path = Path(str(super().convert(value, param, ctx)))
        if self.what == "file" and path.is_dir():
            self.fail(f"{path} is a folder: name a file", param, ctx)
        if self.what == "folder" and path.is_file():
            self.fail(f"{path} is a file: name a folder", param, ctx)
        return path


def check_one_stdout(*targets: Path | None, as_json: bool) -> None:
    """Refuse two results on standard output, of which `--json` is one."""
    wanted = targets.count(STDOUT)
    if wanted and wanted + as_json > 1:
        raise click.UsageError("one result fits on standard output: name a file for the others")


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """Where to write a file; of one for standard output the bytes follow there when it is whole."""
    if target != STDOUT:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="solscope-") as folder:
        work = Path(folder) / "output"
        yield work
        sys.stdout.flush()
        with work.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
