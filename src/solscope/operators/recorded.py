"""From an operator as a profile records it to an entry of the catalog and its axes.

`recognize` looks the recorded name up in the rules of all operators (`recorded=` in their files).
A rule takes the recorded call and returns the operator's name and axes, or raises `UnclearError`
with the reason why shapes, types and scalar arguments do not determine the cost. Nothing is
guessed: what the record leaves open counts as the case that costs least.
"""

from __future__ import annotations

from functools import cache

from solscope.operators import operators
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.calls.collectives import record_param_comms
from solscope.operators.calls.types import with_types
from solscope.operators.catalog.fused_elementwise import fused_kernel
from solscope.operators.tensors import DTYPES, UnclearError

__all__ = ["DTYPES", "OperatorAxes", "Recorded", "UnclearError", "recognize", "rules"]


@cache
def rules() -> dict[str, CallRule]:
    """What is recorded under a name, by the function that reads it; `name_` falls back to `name`.

    The first call imports all operators.
    """
    by_name: dict[str, CallRule] = {"record_param_comms": record_param_comms}
    for op in operators():
        by_name.update(op.recorded)
    return by_name


def recognize(call: Recorded) -> OperatorAxes | str:
    """The operator and axes of a recorded call, or the reason why there are none."""
    rule = rules().get(call.name) or rules().get(call.name.removesuffix("_"))
    try:
        if rule is None:
            return fused_kernel(call) or "no cost model for this operator"
        return rule(call if call.types else with_types(call))
    except UnclearError as error:
        return str(error)
    except (LookupError, ArithmeticError, ValueError):
        return f"the recorded inputs are not those of {call.name}"
