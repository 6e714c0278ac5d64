"""Depthwise convolution along one dimension: out[b, c, t] = Σ w[c, j] x[b, c, t + j].

vector   2 B C To W                    W taps, 2 FLOP per multiply-add
bytes    x (Ti long), w and out once
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


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


OPERATOR = Operator(
    name="depthwise_conv",
    title="Depthwise convolution",
    category="conv",
    axes=("batch", "channels", "in_length", "out_length", "width", "element_bytes"),
    cost=cost,
)
