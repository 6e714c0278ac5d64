"""Rows or elements picked by index: embeddings, index_select, gather.

    bytes    the indices and the result once; one picked row

All indices may name the same row, so only one row of the source must be read.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator


def cost(axes: Axes) -> Cost:
    """Indices in, result out."""
    return Cost(
        read_bytes={"index": axes["index_bytes"], "weights": axes["row_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


OPERATOR = Operator(
    name="gather",
    title="Rows or elements picked by index",
    category="embedding",
    axes=("index_bytes", "row_bytes", "write_bytes"),
    cost=cost,
)
