"""Owners: kernels that only serve another kernel belong to it.

A split-K reduction serves the product before it, the preparation of an attention call the attention
after it, quantization of an input and a fill before an accumulating kernel the product that
follows. Rules say which kernels are helpers and on which side their owner stands; the owner is the
nearest kernel of the right category on the same stream, a few kernels away at most.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.arrays import positions
from solscope.intervals import Int64s

REACH = 4
"""A helper's owner is at most this many kernels away."""
_OWNERS_OF = {
    "gemm": ("gemm",),
    "attention": ("attention",),
    "quant": ("gemm", "moe", "attention"),
    "moe": ("moe",),
    "memset": ("gemm", "moe", "attention", "linear_attention", "reduce"),
}
"""Categories that may own a helper of a category."""


def find_owners(activities: pl.DataFrame, helpers: dict[str, str]) -> pl.Series:
    """For each activity the `row` of the kernel it serves; null for what stands on its own."""
    side = _side(activities, helpers)
    category = activities["category"].cast(pl.String).to_list()
    owner = np.full(activities.height, -1, dtype=np.int64)
    rows = activities["row"].to_numpy()
    ops = activities["op_row"].to_list()
    work = activities.select("rank", "device", "stream", "start_ns", at=pl.int_range(pl.len()))
    ordered = work.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    for stream in ordered.partition_by(["rank", "device", "stream"]):
        stream_rows = stream["at"].to_numpy()
        for position in np.flatnonzero([side[i] is not None for i in stream_rows]):
            nearest = _owner_at(int(position), stream_rows, side, category, ops)
            if nearest is not None:
                owner[stream_rows[position]] = rows[nearest]
    return positions("owner_row", owner).cast(pl.UInt32)


def _side(activities: pl.DataFrame, helpers: dict[str, str]) -> list[str | None]:
    """`previous` or `next` for helpers, null for all else; a memset may serve what follows."""
    positions = (
        activities["rule"]
        .cast(pl.String)
        .replace_strict(helpers, default=None, return_dtype=pl.String)
    )
    fills = (activities["kind"] == "memset").fill_null(False)
    return pl.select(pl.when(fills).then(pl.lit("next")).otherwise(positions)).to_series().to_list()


def _owner_at(
    position: int,
    stream_rows: Int64s,
    side: list[str | None],
    category: list[str],
    ops: list[int | None],
) -> int | None:
    """Index of the owner of the helper at `position` of its stream."""
    me = int(stream_rows[position])
    step = 1 if side[me] == "next" else -1
    wanted = _OWNERS_OF.get(category[me], (category[me],))
    reach = 1 if category[me] == "memset" else REACH
    for distance in range(1, reach + 1):
        where = position + step * distance
        if not 0 <= where < stream_rows.size:
            return None
        other = int(stream_rows[where])
        if side[other] is None and category[other] in wanted:
            # A fill belongs to the next kernel only if one operator made both.
            both = category[me] != "memset" or ops[me] == ops[other]
            return other if both else None
    return None
