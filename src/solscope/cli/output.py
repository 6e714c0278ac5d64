"""Writing the result of a command: text, JSON, or a file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from solscope.cli.arguments import STDOUT


def emit(text: str) -> None:
    """Write a result to stdout."""
    click.echo(text, nl=not text.endswith("\n"))


def emit_json(result: Any, schema: str | None = None) -> None:
    """Write a result to stdout, as JSON.

    `schema` names its form, by default after the command: `corpus importance` gives
    `corpus_importance`. All forms are in `cli/schemas.py`.
    """
    from solscope.report.json import render_json

    if schema is None:
        path = click.get_current_context().command_path
        schema = "_".join(path.split()[1:]).replace("-", "_")
    emit(render_json(result, schema))


def emit_each(results: list[Any], render: Callable[[Any], str], as_json: bool) -> None:
    """Print the results one after the other; as JSON, a list whatever their number."""
    if as_json:
        emit_json({"profiles": results})
    else:
        emit("\n".join(map(render, results)))


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
