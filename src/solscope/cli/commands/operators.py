"""`solscope operators`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import Costing, each_costed
from solscope.cli.options import (
    CostOptions,
    bound_option,
    choice_option,
    cost_options,
    hardware_option,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.roofline import BoundKind
    from solscope.views.operators import OperatorsBy, OperatorTable

USES = ("solscope.views.operators", "solscope.operators.recorded")
"""Modules that are imported while a profile is read."""


@click.command("operators", short_help="Compare each operator with its roofline bound.")
@profiles_argument
@hardware_option
@choice_option("--by", ["shape", "operator"], "What a row represents.")
@bound_option("corrected")
@click.option("--top", type=click.IntRange(min=1), help="Rows to print. Default: all.")
@cost_options
@form_options
def command(
    files: tuple[str, ...],
    by: OperatorsBy,
    bound: BoundKind,
    top: int | None,
    costs: CostOptions,
    output: Output,
) -> None:
    """Compare each operator with its roofline bound: time, FLOP, bytes, bound and limiter.

    The bound is the least time that this GPU could take; S = bound / time, so 100 % is the limit of
    the hardware. Values are means per call, and shares are of all GPU activity time. Operators
    without a cost model are listed with the reason.

    \b
    Examples:
      solscope operators --top 20 trace.json.gz
      solscope operators --by operator trace.json.gz
      solscope operators --hardware H200 trace.json.gz --json
      solscope operators trace.json.gz --model config.json --batch 32
      solscope operators --with eager.json.gz replay.json.gz
    """

    def analyze(attributed: Attributed, given: Costing) -> OperatorTable:
        from solscope.views.operators import operator_table

        return operator_table(attributed, given.hardware, by, given.model, bound=bound)

    results = each_costed(files, costs, USES, analyze)
    if output.as_json:
        import msgspec

        results = [msgspec.structs.replace(r, operators=r.operators[:top]) for r in results]
    present({"profiles": results}, output, top=top)
