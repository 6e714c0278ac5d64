"""Reduction along some dimensions: sum, mean, maximum, argmax, histogram.

vector   one operation per element     `flop` (default 0)
bytes    the input as stored, once; the result once
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Each element once."""
    return Cost(
        flops={"vector.fp32": axes.get("flop", 0)},
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="reduce",
    title="Sum, mean, maximum along some dimensions",
    category="reduce",
    axes=("read_bytes", "write_bytes"),
    cost=cost,
    optional=("flop",),
)
