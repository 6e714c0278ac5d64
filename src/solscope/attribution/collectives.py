"""Inputs of collectives: where torch wrote them.

A kernel of NCCL belongs to `record_param_comms`. Some versions of torch record the tensor or its
type not there but at the annotation inside it, `nccl:all_reduce` and the like.
"""

from __future__ import annotations

import polars as pl

from solscope.events import THREAD

RECORD = "record_param_comms"
ANNOTATION = "nccl:"


def annotated_inputs(events: pl.DataFrame) -> dict[int, int]:
    """From rows of records without typed inputs to the row of the annotation inside with them."""
    if not (events["name"] == RECORD).any():
        return {}
    timed = events.with_row_index("row").filter(pl.col("start_ns").is_not_null())
    # A join finds no equal nulls; files of one rank have no rank.
    rows = timed.with_columns(pl.col(THREAD).fill_null(-1))
    name, dims = pl.col("name").cast(pl.String), pl.col("input_dims")
    # A list of tensors has no types.
    listed = pl.col("input_types").cast(pl.String).str.starts_with('["TensorList"')
    bare = rows.filter((pl.col("kind") == "cpu_op") & (name == RECORD) & (dims.is_null() | listed))
    if bare.is_empty():
        return {}
    notes = rows.filter(
        (pl.col("kind") == "annotation")
        & name.str.starts_with(ANNOTATION)
        & pl.col("input_dims").is_not_null()
    ).select(*THREAD, "start_ns", pl.col("row").alias("note"), pl.col("start_ns").alias("begin"))
    inside = bare.sort("start_ns").join_asof(
        notes.sort("start_ns"), on="start_ns", by=THREAD, strategy="forward", check_sortedness=False
    )
    ends = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    return dict(inside.filter(pl.col("begin") <= ends).select("row", "note").iter_rows())
