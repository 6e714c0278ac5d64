"""`solscope hotspots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import (
    Costing,
    are_runs,
    each_costed,
    open_hardware,
    open_model,
    open_ranks_and,
    refuse_with_runs,
)
from solscope.cli.options import CostOptions, cost_options, hardware_option, number_option
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.views.hotspots import HotspotTable

USES = ("solscope.views.hotspots", "solscope.operators.recorded")
"""Modules that are imported while a profile is read."""


@click.command("hotspots", short_help="Rank what to fix first, by time saved.")
@profiles_argument
@hardware_option
@number_option(
    "--target",
    80.0,
    click.FloatRange(0, 100, min_open=True),
    "S (bound / time) that an operator is expected to reach.",
    metavar="PCT",
)
@number_option("--top", 10, click.IntRange(min=1), "Rows to print; JSON has all.")
@cost_options
@form_options
def command(
    files: tuple[str, ...],
    target: float,
    top: int,
    costs: CostOptions,
    output: Output,
) -> None:
    """Rank what to fix first: slow operators, tiny kernels, communication, copies, idle time.

    Rows are sorted by the time that fixing them would save per step, and each comes with its
    arithmetic and a confidence. Of a folder or glob with the ranks of a run, rows are means over
    ranks, and waiting for a rank that comes late is a row of its own.

    \b
    Examples:
      solscope hotspots trace.json.gz
      solscope hotspots rank0.json.gz rank1.json.gz
      solscope hotspots ranks/
      solscope hotspots --hardware H200 --target 70 trace.json.gz --json
    """
    if are_runs(files):
        present({"profiles": _of_runs(files, target, costs)}, output, top=top)
        return

    def analyze(attributed: Attributed, given: Costing) -> HotspotTable:
        from solscope.views.hotspots import hotspots

        return hotspots(attributed, given.hardware, target, given.model)

    present({"profiles": each_costed(files, costs, USES, analyze)}, output, top=top)


def _of_runs(files: tuple[str, ...], target: float, costs: CostOptions) -> list[HotspotTable]:
    """The work lists of runs of many ranks."""
    from functools import partial

    from solscope.views.hotspots import hotspots_by_phase
    from solscope.views.hotspots.runs import run_hotspots

    refuse_with_runs(**{"with": costs.companion is not None})
    card, config = open_hardware(costs.hardware), open_model(costs.model)
    view = partial(hotspots_by_phase, hardware=card, target_pct=target, model=config)
    return [run_hotspots(*open_ranks_and(name, costs.opening, view)) for name in files]
