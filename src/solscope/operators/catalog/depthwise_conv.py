"""Depthwise convolution along one dimension: out[b, c, t] = Σ w[c, j] x[b, c, t + j].

vector   2 B C To W                    W taps, 2 FLOP per multiply-add
bytes    x (Ti long), w and out once
"""

from __future__ import annotations

import re

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import UnclearError


@cost_model("batch channels in_length out_length width element_bytes")
def cost(axes: Axes) -> Cost:
    """Each channel by itself."""
    return Cost(
        flops={
            "vector.fp32": 2 * axes["batch"] * axes["channels"] * axes["out_length"] * axes["width"]
        },
        read_bytes={
            "activations": axes["element_bytes"]
            * axes["batch"]
            * axes["channels"]
            * axes["in_length"],
            "weights": axes["element_bytes"] * axes["channels"] * axes["width"],
        },
        write_bytes={
            "activations": axes["element_bytes"]
            * axes["batch"]
            * axes["channels"]
            * axes["out_length"]
        },
    )


def _depthwise(call: Recorded) -> OperatorAxes:
    x, weight = call.tensor(0), call.tensor(1)
    if len(x.shape) != 4 or x.shape[2] != 1 or call.scalar(4) != "[1, 1]":
        raise UnclearError("only a convolution along one dimension with stride 1 is known")
    padding = [int(number) for number in re.findall(r"\d+", call.scalar(5))] or [0]
    length, width = x.shape[3], weight.shape[3]
    axes = {"batch": x.shape[0], "channels": x.shape[1], "in_length": length, "width": width}
    out = max(0, length + 2 * padding[-1] - width + 1)
    return "depthwise_conv", {**axes, "out_length": out, "element_bytes": x.size}


RECORDED: dict[str, CallRule] = {"aten::_conv_depthwise2d": _depthwise}

TITLE = "Depthwise convolution"
OPERATOR = Operator("depthwise_conv", TITLE, "conv", cost, recorded=RECORDED)
