"""`solscope gate`."""

from __future__ import annotations

import re

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import are_runs, open_analysis, open_attributed
from solscope.cli.options import OpeningOptions, flag_option, opening_options, phase_option
from solscope.cli.output import Output, json_option, present

_SHARE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)")
_WHOLE_FROM = 1.0
"""A bare number this large could mean percent or a factor, so it is rejected."""


def fraction(text: str) -> float:
    """`3%`, `3 %` or `0.03` as 0.03."""
    match = _SHARE.fullmatch(text.strip())
    if not match:
        raise click.BadParameter(f"{text!r} is not a valid limit; write 3% or 0.03")
    value = float(match[1])
    if match[2]:
        return value / 100
    if value >= _WHOLE_FROM:
        raise click.BadParameter(
            f"{text!r} has no unit; write {text.strip()}% or a fraction (0.03)"
        )
    return value


def _limit(_context: click.Context, _option: click.Parameter, text: str) -> float:
    return fraction(text)


def _budgets(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, float]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter(f"{name!r} has no limit; write CATEGORY=SHARE, e.g. gemm=5%")
    return {name.strip(): fraction(limit) for name, _, limit in pairs}


@click.command("gate", short_help="Fail a CI job when a profile got slower.")
@click.argument("baseline", type=ProfilePath(), metavar="BASELINE")
@click.argument("candidate", type=ProfilePath(), metavar="CANDIDATE")
@click.option(
    "--max-regression",
    required=True,
    callback=_limit,
    metavar="SHARE",
    help="How much slower a step may be: 3% or 0.03.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    callback=_budgets,
    metavar="CATEGORY=SHARE",
    help="How much more GPU time per step a category may take. May be repeated.",
)
@phase_option("Only this phase. Default: all phases that both profiles have.")
@flag_option("--strict", "Also fail when the answer is 'cannot tell'.")
@opening_options
@json_option
def command(
    baseline: str,
    candidate: str,
    max_regression: float,
    budgets: dict[str, float],
    phase: str | None,
    strict: bool,
    opening: OpeningOptions,
    output: Output,
) -> int:
    """Exit with 1 when CANDIDATE is slower than BASELINE by more than the limit.

    The test compares mean step times per phase, with 95 % confidence: it fails only if the whole
    interval is above the limit. With --strict, it also fails if the data cannot tell. Folders or
    globs with the ranks of a run are tested by the step of the run.

    \b
    Examples:
      solscope gate main.json.gz branch.json.gz --max-regression 3%
      solscope gate a.json.gz b.json.gz --max-regression 5% --strict
      solscope gate a.json.gz b.json.gz --max-regression 3% --budget gemm=5%
      solscope gate main_ranks/ branch_ranks/ --max-regression 3%
    """
    if are_runs((baseline, candidate)):
        from solscope.compare.run_gate import gate_runs

        first, second = (open_analysis(name, opening) for name in (baseline, candidate))
        result = gate_runs(
            first, second, max_regression, strict=strict, phase=phase, budgets=budgets
        )
        return present(result, output, failed=not result.passed)
    before = open_attributed(baseline, opening)
    after = open_attributed(candidate, opening)
    from solscope import gate

    result = gate(before, after, max_regression, strict=strict, phase=phase, budgets=budgets)
    return present(result, output, failed=not result.passed)
