"""Results files as commands read them: what does not count is said on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solscope.bench.base import ShapeResult


def read_lines(files: Sequence[Path | str]) -> list[ShapeResult]:
    """All lines; warns about edited lines and a truncated last one, which do not count."""
    return read_with_ignored(files)[0]


def read_with_ignored(files: Sequence[Path | str]) -> tuple[list[ShapeResult], list[str]]:
    """The same, with what was said about lines that do not count."""
    from solscope.bench.results.digest import describe_edited, read_intact
    from solscope.bench.results.files import is_cut_off

    results, edited = read_intact(files)
    warnings = describe_edited(edited)
    for path in dict.fromkeys(map(Path, files)):
        if path.is_file() and is_cut_off(path):
            warnings.append(
                f"{path}: ignored the truncated last line; continue with bench run --resume"
            )
    for warning in warnings:
        click.echo(f"solscope: {warning}", err=True)
    return results, warnings
