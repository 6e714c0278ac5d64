"""`solscope hotspots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import Costing, each_costed
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
    arithmetic and a confidence.

    \b
    Examples:
      solscope hotspots trace.json.gz
      solscope hotspots rank0.json.gz rank1.json.gz
      solscope hotspots --hardware H200 --target 70 trace.json.gz --json
    """

    def analyze(attributed: Attributed, given: Costing) -> HotspotTable:
        from solscope.views.hotspots import hotspots

        return hotspots(attributed, given.hardware, target, given.model)

    present({"profiles": each_costed(files, costs, USES, analyze)}, output, top=top)
