"""`solscope show` in the terminal: one profile on a page, several side by side, ranks of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.results.show.page import show_page
from solscope.report.results.show.run import show_run
from solscope.report.results.show.several import show_columns, show_rows
from solscope.report.results.show.slowest import slowest_parts
from solscope.views.runs import Run
from solscope.views.steps import StepTimes
from solscope.views.summary import Summary

__all__ = ["Summaries", "show_parts", "slowest_parts"]

SIDE_BY_SIDE = 4
"""Up to this many profiles are shown side by side; more become a table with one row each."""


class Summaries(TypedDict):
    """The profiles of `solscope show`, and the runs that they are ranks of."""

    profiles: list[Summary]
    runs: list[Run]


@form("show", Summaries)
def show_parts(
    result: Summaries,
    screen: Screen,
    *,
    full_names: bool,
    drawn: Mapping[str, StepTimes] | None = None,
) -> list[Printable]:
    """One or several profiles.

    `drawn` has the step times of each, by path; null where nothing can be drawn.
    """
    summaries, runs = result["profiles"], result["runs"]
    # One file that merges its ranks is a page with a table of devices, not a run of files.
    spread = [run for run in runs if len({row.path for row in run.ranks}) > 1]
    in_runs = {row.path for run in spread for row in run.ranks}
    blocks: list[list[Printable]] = [
        show_run(
            run, [s for s in summaries if s.path in {row.path for row in run.ranks}], screen.width
        )
        for run in spread
    ]
    others = [s for s in summaries if s.path not in in_runs]
    if len(others) == 1:
        times = None if drawn is None else drawn[others[0].path]
        blocks.append(show_page(others[0], screen.width, full_names, times))
    elif 1 < len(others) <= SIDE_BY_SIDE:
        blocks.append(show_columns(others, screen.width))
    elif others:
        blocks.append(show_rows(others, screen.width))
    return [printable for block in blocks for printable in (*block, Text(""))][:-1]
