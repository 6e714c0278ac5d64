"""From an operator as a profile records it to an entry of the catalog and its axes.

`recognize` looks the recorded name up in the rules of all operators (`recorded=` in their files).
A rule takes the recorded call and returns the operator's name and axes, or raises `UnclearError`
with the reason why shapes, types and scalar arguments do not determine the cost. Nothing is
guessed: what the record leaves open counts as the case that costs least.
"""

from __future__ import annotations

import re
from functools import cache

from solscope.operators import operators
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.calls.collectives import record_param_comms
from solscope.operators.calls.types import with_types
from solscope.operators.catalog.dot_product_attention import attention_kernel
from solscope.operators.catalog.fused_elementwise import fused_kernel
from solscope.operators.tensors import DTYPES, UnclearError

__all__ = ["DTYPES", "OperatorAxes", "Recorded", "UnclearError", "recognize", "rules"]

_COUNTED = re.compile(r"_\d+$")


@cache
def rules() -> dict[str, CallRule]:
    """What is recorded under a name, by the function that reads it; `name_` falls back to `name`.

    The first call imports all operators.
    """
    by_name: dict[str, CallRule] = {"record_param_comms": record_param_comms}
    for op in operators():
        by_name.update(op.recorded)
    return by_name


def _names(recorded: str) -> tuple[str, ...]:
    """The name itself, without the mark of in-place operators, and without a counter.

    Wrappers that record a Python function as an operator number their names.
    """
    return recorded, recorded.removesuffix("_"), _COUNTED.sub("", recorded)


def recognize(call: Recorded) -> OperatorAxes | str:
    """The operator and axes of a recorded call, or the reason why there are none."""
    rule = next((r for n in _names(call.name) if (r := rules().get(n)) is not None), None)
    try:
        if rule is None:
            return fused_kernel(call) or attention_kernel(call) or "no cost model for this operator"
        return rule(call if call.types else with_types(call))
    except UnclearError as error:
        return str(error)
    except (LookupError, ArithmeticError, ValueError):
        return f"the recorded inputs are not those of {call.name}"
