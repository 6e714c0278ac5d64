"""One value, or a sequence of numbers, into a tensor.

bytes    the result once
"""

from __future__ import annotations

import math

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded, recorded_as
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import UnclearError


@cost_model("write_bytes")
def cost(axes: Axes) -> Cost:
    """Nothing to read."""
    return Cost(
        write_bytes={"activations": axes["write_bytes"]},
    )


def _fill(call: Recorded) -> OperatorAxes:
    return "fill", {"write_bytes": call.tensor(0).bytes}


def _arange(call: Recorded) -> OperatorAxes:
    try:
        numbers = [float(text) for text in call.concrete if text]
        start, end, step = numbers if len(numbers) == 3 else (0.0, *numbers, 1.0)
        count = max(0, math.ceil((end - start) / step))
    except (ValueError, ZeroDivisionError):
        raise UnclearError("the limits of the sequence are not recorded") from None
    out = next((call.tensor(index) for index in range(len(call.types)) if call.has(index)), None)
    if out is None:
        raise UnclearError("the type of the result is not recorded")
    return "fill", {"write_bytes": out.size * count}


_IN_PLACE = "aten::fill_ aten::zero_ aten::exponential_ aten::random_ aten::normal_ aten::uniform_"
RECORDED: dict[str, CallRule] = {**recorded_as(_IN_PLACE, _fill), "aten::arange": _arange}

TITLE = "Write one value or a sequence"
OPERATOR = Operator("fill", TITLE, "elementwise", cost, recorded=RECORDED)
