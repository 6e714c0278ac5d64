"""One value, or a sequence of numbers, into a tensor.

bytes    the result once
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Nothing to read."""
    return Cost(
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="fill",
    title="Write one value or a sequence",
    category="elementwise",
    axes=("write_bytes",),
    cost=cost,
)
