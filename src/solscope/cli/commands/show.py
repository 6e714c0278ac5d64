"""`solscope show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, note_skipped, open_attributed
from solscope.cli.options import (
    OpeningOptions,
    flag_option,
    full_names_option,
    number_option,
    opening_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    import polars as pl

    from solscope.attribution import Attributed
    from solscope.views.steps import StepTimes
    from solscope.views.summary import Summary

USES = ("solscope.views.runs", "solscope.views.summary", "solscope.report.results.show")
"""Modules that are imported while a profile is read."""


@click.command("show", short_help="Say where the GPU time goes.")
@profiles_argument
@number_option("--top", 10, click.IntRange(min=0), "Kernels to list.")
@flag_option(
    "--slowest", "List the --top slowest steps, and what is unusual about each; JSON has all."
)
@full_names_option
@opening_options
@form_options
def command(
    files: tuple[str, ...],
    top: int,
    slowest: bool,
    full_names: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Say where the GPU time goes: busy, idle and why, categories, top kernels.

    Several files are shown side by side. A folder or glob with the ranks of one run gives a table
    of ranks.

    \b
    Examples:
      solscope show trace.json.gz
      solscope show before.sqlite after.sqlite
      solscope show profiles/ --json
      solscope show --slowest trace.json.gz
    """
    if slowest:
        _slowest(files, top, opening, output)
        return
    from solscope import find_profiles

    paths = find_profiles(files, note_skipped)
    opened = (open_attributed(path, opening, uses=USES) for path in paths)
    looks = [_look(attributed, top, output) for attributed in opened]
    from solscope import runs

    summaries = [look.summary for look in looks]
    collectives = {look.summary.path: look.collectives for look in looks}
    present(
        {"profiles": summaries, "runs": runs(summaries, collectives)},
        output,
        full_names=full_names,
        drawn={look.summary.path: look.times for look in looks} if output.draws else None,
    )


def _slowest(
    files: tuple[str, ...],
    top: int,
    opening: OpeningOptions,
    output: Output,
) -> None:
    from solscope.views.step_rows import step_rows

    tables = each_profile(files, lambda path: step_rows(open_attributed(path, opening)))
    present({"profiles": tables}, output, form="show_slowest", top=top)


class _Look(NamedTuple):
    """What is shown of one profile; the rest of it is not kept."""

    summary: Summary
    collectives: pl.DataFrame
    times: StepTimes | None


def _look(attributed: Attributed, top: int, output: Output) -> _Look:
    from solscope import summarize
    from solscope.ranks.skew import collective_calls
    from solscope.views.steps import step_times

    times = step_times(attributed) if output.draws else None
    return _Look(summarize(attributed, top), collective_calls(attributed), times)
