"""`solscope efficiency`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_hardware, open_model, open_with_companion
from solscope.cli.options import (
    ModelOptions,
    OpeningOptions,
    choice_option,
    hardware_option,
    sizes_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.views.efficiency import EfficiencyBy, EfficiencyTable

USES = ("solscope.views.efficiency", "solscope.operators.recorded")
"""Modules that are imported while a profile is read."""


@click.command("efficiency", short_help="Compute MFU, MBU and the speed of light of a step.")
@profiles_argument
@choice_option("--by", ["phase", "step", "layer"], "What a row represents.")
@hardware_option
@sizes_options
@form_options
def command(
    files: tuple[str, ...],
    by: EfficiencyBy,
    hardware: str | None,
    companion: str | None,
    model: ModelOptions,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Compute MFU, MBU and the speed of light of a step, phase or kind of layer.

    MFU is the time that the matrix units need at the peak of their dtypes, MBU the time that HBM
    needs for weights and caches, both over the time of a step. The share of GPU time whose FLOP and
    bytes are known is printed beside them.

    \b
    Examples:
      solscope efficiency demo:h200-normal
      solscope efficiency trace.json.gz
      solscope efficiency --by layer trace.json.gz
      solscope efficiency graph.json.gz --with eager.json.gz
      solscope efficiency trace.json.gz --model config.json --json
    """
    card = open_hardware(hardware)
    config = open_model(model)

    def analyze(path: str) -> EfficiencyTable:
        attributed = open_with_companion(path, opening, companion, USES)
        from solscope.views.efficiency import efficiency

        return efficiency(attributed, card, by, config)

    present({"profiles": each_profile(files, analyze)}, output)
