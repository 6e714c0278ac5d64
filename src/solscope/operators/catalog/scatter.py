"""Values written to places that an index names.

bytes    the values once, their indices where the shapes tell, and as much written
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Values in, values out."""
    return Cost(
        read_bytes={"activations": axes["value_bytes"], "index": axes.get("index_bytes", 0)},
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="scatter",
    title="Values written to indexed places",
    category="elementwise",
    axes=("value_bytes", "write_bytes"),
    cost=cost,
    optional=("index_bytes",),
)
