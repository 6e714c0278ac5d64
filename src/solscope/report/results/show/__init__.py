"""`solscope show` in the terminal: one profile on a page, several side by side, ranks of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import to_markdown
from solscope.report.layout.tables import WIDE, to_text
from solscope.report.results.show.page import show_page
from solscope.report.results.show.run import show_run
from solscope.report.results.show.several import show_columns, show_rows
from solscope.views.rank_rows import Run
from solscope.views.steps import StepTimes
from solscope.views.summary import Summary

SIDE_BY_SIDE = 4
"""Up to this many profiles are shown side by side; more become a table with one row each."""


def render_show(
    summaries: Sequence[Summary],
    runs: Sequence[Run],
    *,
    width: int,
    color: bool,
    full_names: bool,
    drawn: Mapping[str, StepTimes] | None = None,
) -> str:
    """Text for one or several profiles.

    `drawn` has the step times of each, by path; null where nothing can be drawn.
    """
    return to_text(_parts(summaries, runs, width, full_names, drawn), width, color)


def markdown_show(summaries: Sequence[Summary], runs: Sequence[Run], *, full_names: bool) -> str:
    """The same as Markdown."""
    return to_markdown(_parts(summaries, runs, WIDE, full_names, None))


def _parts(
    summaries: Sequence[Summary],
    runs: Sequence[Run],
    width: int,
    full_names: bool,
    drawn: Mapping[str, StepTimes] | None,
) -> list[Printable]:
    # One file that merges its ranks is a page with a table of devices, not a run of files.
    spread = [run for run in runs if len({row.path for row in run.ranks}) > 1]
    in_runs = {row.path for run in spread for row in run.ranks}
    blocks: list[list[Printable]] = [
        show_run(run, [s for s in summaries if s.path in {row.path for row in run.ranks}], width)
        for run in spread
    ]
    others = [s for s in summaries if s.path not in in_runs]
    if len(others) == 1:
        times = None if drawn is None else drawn[others[0].path]
        blocks.append(show_page(others[0], width, full_names, times))
    elif 1 < len(others) <= SIDE_BY_SIDE:
        blocks.append(show_columns(others, width))
    elif others:
        blocks.append(show_rows(others, width))
    return [part for block in blocks for part in (*block, Text(""))][:-1]
