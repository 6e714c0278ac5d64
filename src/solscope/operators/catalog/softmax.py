"""Softmax of rows: out = exp(x - max x) / sum.

vector   4 per element                 maximum, difference, sum, product with the reciprocal
sfu      one exponential per element
bytes    x and out once
"""

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost


@cost_model("elements read_bytes write_bytes")
def cost(axes: Axes) -> Cost:
    """The row stays on the chip between the passes."""
    return Cost(
        flops={"vector.fp32": 4 * axes["elements"], "sfu": axes["elements"]},
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


def _softmax(call: Recorded) -> OperatorAxes:
    x = call.tensor(0)
    axes = {"elements": x.numel, "read_bytes": x.bytes}
    return "softmax", {**axes, "write_bytes": x.numel * x.size}


RECORDED: dict[str, CallRule] = {"aten::_softmax": _softmax, "aten::_log_softmax": _softmax}

TITLE = "Softmax of rows"
OPERATOR = Operator("softmax", TITLE, "softmax", cost, recorded=RECORDED)
