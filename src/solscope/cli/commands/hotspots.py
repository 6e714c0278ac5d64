"""`solscope hotspots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_hardware, open_model, open_with_companion
from solscope.cli.options import (
    ModelOptions,
    OpeningOptions,
    hardware_option,
    number_option,
    sizes_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
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
@sizes_options
@form_options
def command(
    files: tuple[str, ...],
    hardware: str | None,
    target: float,
    top: int,
    companion: str | None,
    model: ModelOptions,
    opening: OpeningOptions,
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
    card = open_hardware(hardware)
    config = open_model(model)

    def analyze(path: str) -> HotspotTable:
        attributed = open_with_companion(path, opening, companion, USES)
        from solscope.views.hotspots import hotspots

        return hotspots(attributed, card, target, config)

    present({"profiles": each_profile(files, analyze)}, output, top=top)
