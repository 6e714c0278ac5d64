"""Softmax of rows: out = exp(x - max x) / sum.

vector   4 per element                 maximum, difference, sum, product with the reciprocal
sfu      one exponential per element
bytes    x and out once
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """The row stays on the chip between the passes."""
    return Cost(
        flops={"vector.fp32": 4 * axes["elements"], "sfu": axes["elements"]},
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="softmax",
    title="Softmax of rows",
    category="softmax",
    axes=("elements", "read_bytes", "write_bytes"),
    cost=cost,
)
