"""From an operator as a profile records it to an entry of the catalog and its axes.

`recognize` looks the recorded name up in a table of small functions. Each takes the recorded call
and returns the operator's name and axes, or raises `UnclearError` with the reason why shapes, types
and scalar arguments do not determine the cost. Nothing is guessed: what the record leaves open
counts as the case that costs least.
"""

from __future__ import annotations

from solscope.operators.recorded import (
    attention,
    communication,
    draws,
    elements,
    engine,
    products,
    rows,
    solvers,
)
from solscope.operators.recorded.call import Found, Recorded, Rule
from solscope.operators.recorded.types import with_types
from solscope.operators.tensors import DTYPES, UnclearError

RULES: dict[str, Rule] = {
    **products.RULES,
    **attention.RULES,
    **elements.RULES,
    **rows.RULES,
    **engine.RULES,
    **solvers.RULES,
    **draws.RULES,
    **communication.RULES,
}
"""What is recorded under a name, by the function that reads it; `name_` falls back to `name`."""

__all__ = ["DTYPES", "RULES", "Found", "Recorded", "UnclearError", "recognize"]


def recognize(call: Recorded) -> Found | str:
    """The operator and axes of a recorded call, or the reason why there are none."""
    rule = RULES.get(call.name) or RULES.get(call.name.removesuffix("_"))
    if rule is None:
        return "no cost model for this operator"
    try:
        return rule(call if call.types else with_types(call))
    except UnclearError as error:
        return str(error)
    except (LookupError, ArithmeticError, ValueError):
        return f"the recorded inputs are not those of {call.name}"
