"""Results files as commands read them: what does not count is said on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solscope.bench.base import ShapeResult


@contextmanager
def results_of(*files: Path | str) -> Iterator[list[ShapeResult]]:
    """All lines; warns about edited lines and a truncated last one, which do not count.

    The warnings follow when the block succeeds: an error is one line.
    """
    with results_and_ignored(files) as (results, _):
        yield results


@contextmanager
def results_of_two(
    before: Path, after: Path
) -> Iterator[tuple[list[ShapeResult], list[ShapeResult]]]:
    """The same of two files; warnings and errors about the first come first."""
    (a, about_a), (b, about_b) = _read([before]), _read([after])
    yield a, b
    _warn(about_a + about_b)


@contextmanager
def results_and_ignored(
    files: Sequence[Path | str],
) -> Iterator[tuple[list[ShapeResult], list[str]]]:
    """The same, with what is said about lines that do not count."""
    results, warnings = _read(files)
    yield results, warnings
    _warn(warnings)


def _read(files: Sequence[Path | str]) -> tuple[list[ShapeResult], list[str]]:
    from solscope.bench.results.digest import describe_edited, read_intact
    from solscope.bench.results.files import is_cut_off

    results, edited = read_intact(files) if files else ([], {})
    warnings = describe_edited(edited)
    for path in dict.fromkeys(map(Path, files)):
        if path.is_file() and is_cut_off(path):
            warnings.append(
                f"{path}: ignored the truncated last line; continue with bench run --resume"
            )
    return results, warnings


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        click.echo(f"solscope: {warning}", err=True)
