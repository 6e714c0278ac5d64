"""From an operator as a profile records it to an entry of the catalog and its axes.

`recognize` looks the recorded name up in the rules of all operators (`recorded=` in their files).
A rule takes the recorded call and returns the operator's name and axes, or raises `UnclearError`
with the reason why shapes, types and scalar arguments do not determine the cost. Nothing is
guessed: what the record leaves open counts as the case that costs least.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import cast

from solscope.cache.code import package_files
from solscope.cache.digest import blake2b
from solscope.compiled import kept
from solscope.operators import operator, operators
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.calls.collectives import record_param_comms
from solscope.operators.calls.types import with_types
from solscope.operators.catalog.dot_product_attention import attention_kernel
from solscope.operators.catalog.fused_elementwise import fused_kernel
from solscope.operators.tensors import DTYPES, UnclearError

__all__ = ["DTYPES", "OperatorAxes", "Recorded", "UnclearError", "homes", "recognize", "rule_of"]

_COUNTED = re.compile(r"_\d+$")


_OTHERS: dict[str, CallRule] = {"record_param_comms": record_param_comms}
"""Rules of no operator of their own."""


@cache
def homes() -> dict[str, str]:
    """The operator whose file has the rule for what is recorded under a name.

    Found once for each version of the files here, since that imports all operators.
    """
    here = Path(__file__)
    files = repr(sorted(package_files(here.parent, deep=True)))
    return cast("dict[str, str]", kept(here, blake2b(files.encode()).hexdigest(), _find_homes))


def _find_homes() -> dict[str, str]:
    return {recorded: op.name for op in operators() for recorded in op.recorded}


def rule_of(name: str) -> CallRule | None:
    """The function that reads what is recorded under this name; imports its operator alone."""
    if name in homes():
        return operator(homes()[name]).recorded[name]
    return _OTHERS.get(name)


def _names(recorded: str) -> tuple[str, ...]:
    """The name itself, without the mark of in-place operators (`name_`), and without a counter.

    Wrappers that record a Python function as an operator number their names.
    """
    return recorded, recorded.removesuffix("_"), _COUNTED.sub("", recorded)


def recognize(call: Recorded) -> OperatorAxes | str:
    """The operator and axes of a recorded call, or the reason why there are none."""
    rule = next((r for n in _names(call.name) if (r := rule_of(n)) is not None), None)
    try:
        if rule is None:
            return fused_kernel(call) or attention_kernel(call) or "no cost model for this operator"
        return rule(call if call.types else with_types(call))
    except UnclearError as error:
        return str(error)
    except (LookupError, ArithmeticError, ValueError):
        return f"the recorded inputs are not those of {call.name}"
