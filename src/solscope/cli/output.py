"""Output targets of commands: a file, a folder, or standard output (`-`)."""

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
"""What `-` means; write `./-` for a file of that name."""


class OutputPath(click.Path):
    """A file or folder to write; accepts `-` only if the command can write to standard output."""

    def __init__(self, what: str = "file", *, stdout: bool = False) -> None:
        super().__init__()
        self.what, self.stdout = what, stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or `STDOUT`."""
        if str(value) == "-" and self.stdout:
            return STDOUT
        if str(value) == "-":
            self.fail(
                f"this output cannot go to standard output; give a {self.what} name", param, ctx
            )
        path = Path(str(super().convert(value, param, ctx)))
        if self.what == "file" and path.is_dir():
            self.fail(f"{path} is a folder; give a file name", param, ctx)
        if self.what == "folder" and path.is_file():
            self.fail(f"{path} is a file; give a folder name", param, ctx)
        return path


def check_one_stdout(*targets: Path | None, as_json: bool) -> None:
    """Reject more than one result on standard output, counting `--json`."""
    wanted = targets.count(STDOUT)
    if wanted and wanted + as_json > 1:
        raise click.UsageError(
            "only one result can go to standard output; write the others to files"
        )


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """Yield a path to write to; a file for standard output is copied there once it is complete."""
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
