"""`solscope bench score|compare|leaderboard|verify`: evaluate results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from solscope.cli import completion
from solscope.cli.arguments import BundledPath
from solscope.cli.options import Decorator, name_option
from solscope.cli.output import Output, form_options, present
from solscope.cli.results_files import results_of, results_of_two

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
operators_option = name_option(
    "--op",
    "operators",
    metavar="OP,...",
    complete=completion.operators_of_suite,
    help_text="Only these operators; S is then theirs alone, not that of the suite. May be "
    "repeated.",
    multiple=True,
    callback=lambda _context, _parameter, given: _names(given),
)
method_option: Decorator = click.option(
    "--method", metavar="METHOD", help="Timing method to use, e.g. graph."
)


def _names(given: Sequence[str]) -> list[str]:
    """Names in options that may be repeated, each with several of them."""
    names = [name.strip() for text in given for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{','.join(given)!r}: expected operator names")
    return list(dict.fromkeys(names))


def solution_option(name: str, help_text: str) -> Decorator:
    """The name of a solution, among those of the results."""
    return name_option(name, metavar="NAME", complete=completion.solution, help_text=help_text)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--op`, `--on`, `--suite` and `--method`: which results count."""
    return operators_option(device_name_option(suite_name_option(method_option(command))))


@click.command("score", short_help="Compute S per operator and overall.")
@files_argument
@solution_option("--solution", "Score this solution. Default: the best one per shape.")
@selection_options
@form_options
def score(
    files: tuple[Path, ...],
    solution: str | None,
    operators: list[str],
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> None:
    """Compute S = bound / time per operator and overall, and what could still be gained.

    \b
    Examples:
      solscope bench score r.jsonl
      solscope bench score r.jsonl --solution mine --op rms_norm
      solscope bench score demo:bench-h200 --method graph
    """
    from solscope.bench.results.score import score as compute

    with results_of(*files) as lines:
        result = compute(lines, solution, device, method, suite, operators)
    present(result, output)


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
    operators: list[str],
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> int:
    """Compare the results in B with those in A, per shape and overall.

    Exit code 1: B is slower overall.

    \b
    Examples:
      solscope bench compare before.jsonl after.jsonl
      solscope bench compare r.jsonl r.jsonl --solution-a a --solution-b b
    """
    from solscope.bench.results.contrast import contrast

    with results_of_two(before, after) as (a, b):
        result = contrast(a, b, solution_a, solution_b, device, method, suite, operators)
    return present(result, output, failed=result.verdict == "slower")


@click.command("leaderboard", short_help="Rank solutions.")
@files_argument
@selection_options
@form_options
def leaderboard(
    files: tuple[Path, ...],
    operators: list[str],
    device: str | None,
    suite: str | None,
    method: str | None,
    output: Output,
) -> None:
    """Rank all solutions in the given files, overall and per operator.

    \b
    Examples:
      solscope bench leaderboard r.jsonl
      solscope bench leaderboard r.jsonl --op rms_norm,silu_and_mul
      solscope bench leaderboard demo:bench-h200 --markdown
    """
    from solscope.bench.results.leaderboard import leaderboard as rank

    with results_of(*files) as lines:
        result = rank(lines, device, method, suite, operators)
    present(result, output)


@click.command("verify", short_help="Check that result files are as they were written.")
@files_argument
@form_options
def verify(files: tuple[Path, ...], output: Output) -> int:
    """Check result files for edited, missing or contradictory lines.

    Every line carries a digest of itself and one of its run. Weights, bounds and medians are
    computed again. Exit code 1: something does not fit.

    \b
    Examples:
      solscope bench verify r.jsonl
    """
    from solscope.bench.audit import audit

    result = audit(files)
    return present(result, output, failed=not result.ok)
