"""`solscope efficiency`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_attributed, open_model
from solscope.cli.options import (
    ModelOptions,
    choice_option,
    companion_option,
    hardware_option,
    model_options,
    opening_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.views.efficiency import EfficiencyBy, EfficiencyTable


@click.command("efficiency", short_help="Compute MFU, MBU and the speed of light of a step.")
@profiles_argument
@choice_option("--by", ["phase", "step", "layer"], "What a row represents.")
@hardware_option
@companion_option
@model_options
@opening_options
@form_options
def command(
    files: tuple[str, ...],
    by: EfficiencyBy,
    hardware: str | None,
    companion: str | None,
    model: ModelOptions,
    rule_files: tuple[Path, ...],
    max_expansion: int,
    output: Output,
) -> None:
    """Compute MFU, MBU and the speed of light of a step, phase or kind of layer.

    MFU is the time that the matrix units need at the peak of their dtypes, MBU the time that HBM
    needs for weights and caches, both over the time of a step. The share of GPU time whose FLOP and
    bytes are known is printed beside them.

    \b
    Examples:
      solscope efficiency trace.json.gz
      solscope efficiency --by layer trace.json.gz
      solscope efficiency graph.json.gz --with eager.json.gz
      solscope efficiency trace.json.gz --model config.json --json
    """
    from solscope.views.efficiency import efficiency
    from solscope.views.operators import named_hardware

    card = None if hardware is None else named_hardware(hardware)
    config = open_model(model)

    def analyze(path: str) -> EfficiencyTable:
        return efficiency(
            open_attributed(path, rule_files, max_expansion, companion), card, by, config
        )

    present({"profiles": each_profile(files, analyze)}, output)
