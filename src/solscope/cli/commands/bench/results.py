"""`solscope bench score|compare|leaderboard|verify`: evaluate results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solscope.cli import completion
from solscope.cli.arguments import BundledPath
from solscope.cli.options import Decorator, name_option
from solscope.cli.output import Output, form_options, present

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
    help="Only results of this device; part of its name is enough.",
)
suite_name_option = name_option(
    "--suite",
    metavar="NAME",
    complete=completion.suite,
    help_text="Only results of this suite.",
)
method_option: Decorator = click.option(
    "--method", metavar="METHOD", help="Timing method to use, e.g. graph."
)


def solution_option(name: str, help_text: str) -> Decorator:
    """The name of a solution, among those of the results."""
    return name_option(name, metavar="NAME", complete=completion.solution, help_text=help_text)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--on`, `--suite` and `--method`: which results count."""
    return device_name_option(suite_name_option(method_option(command)))


def _read(files: Sequence[Path]) -> list[ShapeResult]:
    """All lines; warns about edited lines and a truncated last one, which do not count."""
    from solscope.bench.results.digest import read_intact
    from solscope.bench.results.files import is_cut_off

    results, edited = read_intact(files)
    for name, lines in edited.items():
        numbers = ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")
        plural = "" if len(lines) == 1 else "s"
        warning = f"{name}: ignored edited line{plural} {numbers}; bench verify says what is wrong"
        click.echo(f"solscope: {warning}", err=True)
    for path in dict.fromkeys(files):
        if path.is_file() and is_cut_off(path):
            warning = f"{path}: ignored the truncated last line; continue with bench run --resume"
            click.echo(f"solscope: {warning}", err=True)
    return results


@click.command("score", short_help="Compute S per operator and overall.")
@files_argument
@solution_option("--solution", "Score this solution. Default: the best one per shape.")
@selection_options
@form_options
def score(
    files: tuple[Path, ...],
    solution: str | None,
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> None:
    """Compute S = bound / time per operator and overall, and what could still be gained."""
    from solscope.bench.results.score import score as compute

    present(compute(_read(files), solution, device, method, suite), output)


@click.command("compare", short_help="Compare two result files: faster, slower, or cannot tell.")
@click.argument("before", metavar="A", type=BundledPath("results", path_type=Path))
@click.argument("after", metavar="B", type=BundledPath("results", path_type=Path))
@solution_option("--solution-a", "Solution from A. Default: the best one per shape.")
@solution_option("--solution-b", "Solution from B. Default: the best one per shape.")
@selection_options
@form_options
def compare(
    before: Path,
    after: Path,
    solution_a: str | None,
    solution_b: str | None,
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> int:
    """Compare the results in B with those in A, per shape and overall.

    Exit code 1: B is slower overall.
    """
    from solscope.bench.results.contrast import contrast

    sides = _read([before]), _read([after])
    result = contrast(*sides, solution_a, solution_b, device, method, suite)
    return present(result, output, failed=result.verdict == "slower")


@click.command("leaderboard", short_help="Rank solutions.")
@files_argument
@selection_options
@form_options
def leaderboard(
    files: tuple[Path, ...],
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> None:
    """Rank all solutions in the given files, overall and per operator."""
    from solscope.bench.results.leaderboard import leaderboard as rank

    present(rank(_read(files), device, method, suite), output)


@click.command("verify", short_help="Check that result files are as they were written.")
@files_argument
@form_options
def verify(files: tuple[Path, ...], output: Output) -> int:
    """Check result files for edited, missing or contradictory lines.

    Every line carries a digest of itself and one of its run. Weights, bounds and medians are
    computed again. Exit code 1: something does not fit.
    """
    from solscope.bench.audit import audit

    found = audit(files)
    return present(found, output, failed=not found.ok)
