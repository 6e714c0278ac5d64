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
from solscope.events import GPU_KINDS, THREAD, correlation_key, is_launch
from solscope.intervals import Int64s, innermost

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
    by_time = unknown.select("launch_row", by_time=_enclosing(events, unknown, "cpu_op"))
    found = launches.with_columns(by_id=by_id).join(
        by_time, on="launch_row", how="left", maintain_order="left"
    )
    return found.select(
        *launches.columns,
        pl.coalesce("by_id", "by_time").alias("op_row"),
        pl.when(pl.col("by_id").is_not_null())
        .then(pl.lit("external_id", LINKS))
        .when(pl.col("by_time").is_not_null())
        .then(pl.lit("nesting", LINKS))
        .alias("op_link"),
    )


def enclosing(
    events: pl.DataFrame, activities: pl.DataFrame, kind: str, names: set[str] | None = None
) -> pl.Series:
    """For each activity the row of the innermost event of `kind` open around its launch, or null.

    `kind` is `annotation`, `python` or `cpu_op`; `names` restricts it to events of these names.
    """
    rows = activities["launch_row"].drop_nulls().unique().sort()
    launches = events.select("start_ns", *THREAD)[rows].with_columns(rows.alias("launch_row"))
    found = launches.select("launch_row", _enclosing(events, launches, kind, names).alias("found"))
    joined = activities.select("launch_row").join(
        found, on="launch_row", how="left", maintain_order="left"
    )
    return joined["found"]


def _launches(events: pl.DataFrame, gpu: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Launch calls that caused a GPU activity, one per correlation id."""
    return (
        events.lazy()
        .select("kind", "correlation", "external_id", "start_ns", *THREAD)
        .with_row_index("launch_row")
        .filter(is_launch())
        .join(gpu.lazy().select(key).unique(), on=key, how="semi", nulls_equal=True)
        .unique(key, keep="first", maintain_order=True)
        .collect()
    )


def _by_external_id(events: pl.DataFrame, launches: pl.DataFrame) -> pl.Series:
    """Row of the operator with the launch's external id; all null where that id means nothing."""
    # Old traces repeat the correlation as External id, which then is no operator's.
    repeats = (launches["external_id"] == launches["correlation"]).sum()
    known = launches.height - launches["external_id"].null_count()
    if repeats * 2 > launches.height or not known:
        return pl.Series("op", [None], dtype=pl.UInt32).new_from_index(0, launches.height)
    operators = (
        events.lazy()
        .select("kind", "rank", "external_id")
        .with_row_index("op")
        .filter((pl.col("kind") == "cpu_op") & pl.col("external_id").is_not_null())
        .select("rank", "external_id", "op")
        .unique(["rank", "external_id"], keep="last", maintain_order=True)
        .collect()
    )
    joined = launches.select("rank", "external_id").join(
        operators, on=["rank", "external_id"], how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(pl.when(pl.col("external_id").is_not_null()).then("op"))["op"]


def _enclosing(
    events: pl.DataFrame, calls: pl.DataFrame, kind: str, names: set[str] | None = None
) -> pl.Series:
    """Row of the innermost event of `kind` that was open on the calling thread at each call."""
    found = np.full(calls.height, -1, dtype=np.int64)
    if not calls.is_empty():
        threads = _by_thread(events, kind, names)
        timed = calls.with_row_index("position").filter(pl.col("start_ns").is_not_null())
        for key, part in timed.partition_by(THREAD, as_dict=True).items():
            if (frames := threads.get(key)) is None:
                continue
            start = _array(frames["start_ns"])
            index = innermost(_array(part["start_ns"]), start, start + _array(frames["dur_ns"]))
            rows = _array(frames["row"].cast(pl.Int64))
            found[_array(part["position"].cast(pl.Int64))] = np.where(
                index >= 0, rows[np.maximum(index, 0)], -1
            )
    return positions(kind, found).cast(pl.UInt32)


def _by_thread(
    events: pl.DataFrame, kind: str, names: set[str] | None
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Timed events of one kind, by thread."""
    wanted = (pl.col("kind") == kind) & pl.all_horizontal(
        pl.col("start_ns", "dur_ns").is_not_null()
    )
    if names is not None:
        wanted &= pl.col("name").is_in(sorted(names))
    return (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .with_row_index("row")
        .filter(wanted)
        .drop("kind", "name")
        .collect()
        .partition_by(THREAD, as_dict=True)
    )


def _array(series: pl.Series) -> Int64s:
    return series.to_numpy()
