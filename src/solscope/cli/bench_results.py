"""`solscope bench score|compare|leaderboard`: what results say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.bundled import BundledPath
from solscope.cli.common import (
    Decorator,
    emit,
    emit_json,
    json_option,
    markdown_option,
    terminal_width,
    use_color,
)

if TYPE_CHECKING:
    from solscope.bench.base import ShapeResult

files_argument: Decorator = click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=BundledPath("results", path_type=Path),
)
device_name_option: Decorator = click.option(
    "--on",
    "device",
    metavar="DEVICE",
    help="Results of this device, or of the one with this in its name.",
)
suite_name_option: Decorator = click.option(
    "--suite",
    metavar="NAME",
    help="Results of this suite, where files have several.",
    shell_complete=completion.suite,
)
method_option: Decorator = click.option(
    "--method", metavar="METHOD", help="Another method that was run, e.g. graph."
)


def _read(files: Sequence[Path]) -> list[ShapeResult]:
    """All lines; says which file was cut off, since its last result does not count."""
    from solscope.bench.results import is_cut_off, read_results

    found = read_results(files)
    for path in dict.fromkeys(files):
        if path.is_file() and is_cut_off(path):
            said = (
                f"{path}: the last line was cut off and does not count; bench run --resume goes on"
            )
            click.echo(f"solscope: {said}", err=True)
    return found


@click.command("score", short_help="S per operator and over all.")
@files_argument
@click.option(
    "--solution",
    metavar="NAME",
    help="One solution; the best per shape when left out.",
    shell_complete=completion.solution,
)
@device_name_option
@suite_name_option
@method_option
@markdown_option
@json_option
def score(
    files: tuple[Path, ...],
    solution: str | None,
    device: str | None,
    suite: str | None,
    method: str | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Score results: S of each operator, weighted over all, and what could be won."""
    from solscope.bench.score import score as compute

    found = compute(_read(files), solution, device, method, suite)
    if as_json:
        emit_json(found)
        return
    from solscope.report.bench import markdown_score, render_score

    if markdown:
        emit(markdown_score(found))
        return
    emit(render_score(found, width=terminal_width(), color=use_color()))


@click.command("compare", short_help="Two sets of results: faster, slower, or cannot tell.")
@click.argument("before", metavar="A", type=BundledPath("results", path_type=Path))
@click.argument("after", metavar="B", type=BundledPath("results", path_type=Path))
@click.option(
    "--solution-a",
    metavar="NAME",
    help="Solution of A; its best per shape else.",
    shell_complete=completion.solution,
)
@click.option(
    "--solution-b",
    metavar="NAME",
    help="Solution of B; its best per shape else.",
    shell_complete=completion.solution,
)
@device_name_option
@suite_name_option
@method_option
@markdown_option
@json_option
@click.pass_context
def compare(
    context: click.Context,
    before: Path,
    after: Path,
    solution_a: str | None,
    solution_b: str | None,
    device: str | None,
    suite: str | None,
    method: str | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Compare the results in B with those in A, shape by shape and over all.

    Exits with 1 when B is slower over all.
    """
    from solscope.bench.contrast import contrast

    sides = _read([before]), _read([after])
    found = contrast(*sides, solution_a, solution_b, device, method, suite)
    if as_json:
        emit_json(found)
    elif markdown:
        from solscope.report.bench import markdown_contrast

        emit(markdown_contrast(found))
    else:
        from solscope.report.bench import render_contrast

        emit(render_contrast(found, width=terminal_width(), color=use_color()))
    if found.verdict == "slower":
        context.exit(1)


@click.command("leaderboard", short_help="Solutions side by side.")
@files_argument
@device_name_option
@suite_name_option
@method_option
@markdown_option
@json_option
def leaderboard(
    files: tuple[Path, ...],
    device: str | None,
    suite: str | None,
    method: str | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Rank all solutions in FILES, over all and on each operator."""
    from solscope.bench.leaderboard import leaderboard as rank

    found = rank(_read(files), device, method, suite)
    if as_json:
        emit_json(found)
        return
    from solscope.report.bench import markdown_leaderboard, render_leaderboard

    if markdown:
        emit(markdown_leaderboard(found))
        return
    emit(render_leaderboard(found, width=terminal_width(), color=use_color()))
