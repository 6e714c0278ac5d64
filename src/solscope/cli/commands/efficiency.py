"""`solscope efficiency`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import Costing, each_costed
from solscope.cli.options import CostOptions, choice_option, cost_options, hardware_option
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.views.efficiency import EfficiencyBy, EfficiencyTable

USES = ("solscope.views.efficiency", "solscope.operators.recorded")
"""Modules that are imported while a profile is read."""


@click.command("efficiency", short_help="Compute MFU, MBU and the speed of light of a step.")
@profiles_argument
@choice_option("--by", ["phase", "step", "layer"], "What a row represents.")
@hardware_option
@cost_options
@form_options
def command(
    files: tuple[str, ...],
    by: EfficiencyBy,
    costs: CostOptions,
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

    def analyze(attributed: Attributed, given: Costing) -> EfficiencyTable:
        from solscope.views.efficiency import efficiency

        return efficiency(attributed, given.hardware, by, given.model)

    present({"profiles": each_costed(files, costs, USES, analyze)}, output)
