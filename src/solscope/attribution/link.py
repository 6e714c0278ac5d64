"""Which launch call, operator, annotation and Python frame each GPU activity came from.

    activity --correlation--> launch call --External id, else nesting in time--> operator
                              launch call --nesting in time--> annotation, Python frame

Activities without a launch in the profile keep nulls; none is dropped. Row numbers point into the
event table.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.arrays import positions
from solscope.attribution.stacks import open_at
from solscope.events import GPU_KINDS, THREAD, correlation_key, is_launch
from solscope.intervals import Int64s
from solscope.queries import collect

LINKS = pl.Enum(["external_id", "nesting"])
"""How the operator of an activity was found."""


def link(events: pl.DataFrame) -> pl.DataFrame:
    """GPU activities with `row`, `launch_row`, `op_row`, `op_link` added."""
    gpu = events.with_row_index("row").filter(pl.col("kind").is_in(GPU_KINDS))
    key = correlation_key(gpu)
    launches = operators_of(events, _launches(events, gpu, key))
    host = launches.select(*key, "launch_row", "op_row", "op_link")
    return gpu.join(host, on=key, how="left", nulls_equal=True, maintain_order="left")


def operators_of(events: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Launch calls with `op_row` and `op_link` added.

    They need `launch_row`, and of their event correlation, external id, start and thread.
    """
    by_id = _by_external_id(events, launches)
    # Nesting is asked only for launches whose operator the ids do not tell.
    unknown = launches.filter(by_id.is_null())
    nested = positions("by_time", open_at(events, unknown, "cpu_op")).cast(pl.UInt32)
    by_time = unknown.select("launch_row", nested)
    joined = launches.with_columns(by_id=by_id).join(
        by_time, on="launch_row", how="left", maintain_order="left"
    )
    return joined.select(
        *launches.columns,
        pl.coalesce("by_id", "by_time").alias("op_row"),
        pl.when(pl.col("by_id").is_not_null())
        .then(pl.lit("external_id", LINKS))
        .when(pl.col("by_time").is_not_null())
        .then(pl.lit("nesting", LINKS))
        .alias("op_link"),
    )


def _launches(events: pl.DataFrame, gpu: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Launch calls that caused a GPU activity, one per correlation id."""
    return collect(
        events.lazy()
        .select("kind", "correlation", "external_id", "start_ns", *THREAD)
        .with_row_index("launch_row")
        .filter(is_launch())
        .join(gpu.lazy().select(key).unique(), on=key, how="semi", nulls_equal=True)
        .unique(key, keep="first", maintain_order=True)
    )


def _by_external_id(events: pl.DataFrame, launches: pl.DataFrame) -> pl.Series:
    """Row of the operator with the launch's external id; all null where that id means nothing."""
    # Old traces repeat the correlation as External id, which then is no operator's.
    repeats = (launches["external_id"] == launches["correlation"]).sum()
    with_id = launches.height - launches["external_id"].null_count()
    if repeats * 2 > launches.height or not with_id:
        return pl.Series("op", [None], dtype=pl.UInt32).new_from_index(0, launches.height)
    operators = collect(
        events.lazy()
        .select("kind", "rank", "external_id")
        .with_row_index("op")
        .filter((pl.col("kind") == "cpu_op") & pl.col("external_id").is_not_null())
        .select("rank", "external_id", "op")
    )
    op_rows = np.full(launches.height, -1, dtype=np.int64)
    theirs = operators.partition_by("rank", as_dict=True)
    asked = launches.select("rank", "external_id").with_row_index("at").drop_nulls("external_id")
    for rank, of_rank in asked.partition_by("rank", as_dict=True).items():
        if (mine := theirs.get(rank)) is not None:
            last = _last(_array(mine["external_id"]), _array(of_rank["external_id"]))
            rows = _array(mine["op"].cast(pl.Int64))[np.maximum(last, 0)]
            op_rows[_array(of_rank["at"].cast(pl.Int64))] = np.where(last >= 0, rows, -1)
    return positions("op", op_rows).cast(pl.UInt32)


def _last(ids: Int64s, wanted: Int64s) -> Int64s:
    """Where each wanted id occurs last, or -1."""
    order = np.argsort(ids, kind="stable")  # ids mostly ascend, which makes this fast
    ordered = ids[order]
    last = np.searchsorted(ordered, wanted, side="right") - 1
    place = np.maximum(last, 0)
    return np.where((last >= 0) & (ordered[place] == wanted), order[place], -1)


def _array(values: pl.Series) -> Int64s:
    return values.to_numpy()
