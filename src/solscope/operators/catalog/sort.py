"""Sort of rows, or their k largest elements, with indices (int64).

    bytes    the input once; the values and indices that come out once

Comparisons are not counted: how many are needed depends on the method.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Input in, values and indices out."""
    return Cost(
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["value_bytes"], "index": axes["index_bytes"]},
    )


OPERATOR = Operator(
    name="sort",
    title="Sort, or the k largest",
    category="sort_scan",
    axes=("read_bytes", "value_bytes", "index_bytes"),
    cost=cost,
)
