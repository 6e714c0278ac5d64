"""Which launch call, operator, annotation and Python frame each GPU activity came from.

    activity --correlation--> launch call --External id, else nesting in time--> operator
                              launch call --nesting in time--> annotation, Python frame

Activities without a launch in the profile keep nulls; none is dropped. Row numbers point into the
event table.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.events import GPU_KINDS, LAUNCH_KINDS
from solscope.intervals import innermost

LINKS = pl.Enum(["external_id", "nesting"])
"""How the operator of an activity was found."""


def link(events: pl.DataFrame) -> pl.DataFrame:
    """GPU activities with `row`, `launch_row`, `op_row`, `op_link`, `annotation_row`, `python_row`."""
    indexed = events.with_row_index("row")
    gpu = indexed.filter(pl.col("kind").is_in(GPU_KINDS))
    launches = indexed.filter(
        pl.col("kind").is_in(LAUNCH_KINDS) & pl.col("correlation").is_not_null()
    ).unique(["rank", "correlation"], keep="first", maintain_order=True)
    linked = gpu.join(
        launches.select("rank", "correlation", launch_row="row"),
        on=["rank", "correlation"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        pl.when(pl.col("correlation").is_not_null()).then("launch_row").alias("launch_row")
    )
    return _add_host(linked, indexed, launches)


def _add_host(linked: pl.DataFrame, indexed: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The host side of each launch, found once per launch and joined back."""
    used = launches.join(
        linked.select("launch_row"), left_on="row", right_on="launch_row", how="semi"
    )
    host = used.select(
        launch_row="row",
        op_by_id=_by_external_id(used, indexed),
        op_by_time=_enclosing(used, indexed, "cpu_op"),
        annotation_row=_enclosing(used, indexed, "annotation"),
        python_row=_enclosing(used, indexed, "python"),
    )
    joined = linked.join(host, on="launch_row", how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("op_by_id", "op_by_time").alias("op_row"),
        pl.when(pl.col("op_by_id").is_not_null())
        .then(pl.lit("external_id", LINKS))
        .when(pl.col("op_by_time").is_not_null())
        .then(pl.lit("nesting", LINKS))
        .alias("op_link"),
    ).drop("op_by_id", "op_by_time")


def _by_external_id(launches: pl.DataFrame, indexed: pl.DataFrame) -> pl.Series:
    """Row of the operator with the launch's external id; all null where that id means nothing."""
    nothing = pl.Series("op", [None], dtype=pl.UInt32).new_from_index(0, launches.height)
    # Old traces repeat the correlation as External id, which then is no operator's.
    repeats = (launches["external_id"] == launches["correlation"]).sum()
    if repeats * 2 > launches.height or launches["external_id"].null_count() == launches.height:
        return nothing
    operators = (
        indexed.filter((pl.col("kind") == "cpu_op") & pl.col("external_id").is_not_null())
        .select("rank", "external_id", op="row")
        .unique(["rank", "external_id"], keep="last", maintain_order=True)
    )
    return launches.join(
        operators,
        on=["rank", "external_id"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).select(pl.when(pl.col("external_id").is_not_null()).then("op"))["op"]


def _enclosing(launches: pl.DataFrame, indexed: pl.DataFrame, kind: str) -> pl.Series:
    """Row of the innermost event of `kind` that was open on the launching thread at the launch."""
    found = np.full(launches.height, -1, dtype=np.int64)
    outer = indexed.filter(
        (pl.col("kind") == kind) & pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    ).select("row", "rank", "pid", "tid", "start_ns", "dur_ns")
    timed = launches.with_row_index("position").filter(pl.col("start_ns").is_not_null())
    threads = {
        key: part
        for key, part in outer.partition_by(["rank", "pid", "tid"], as_dict=True).items()
    }
    for key, calls in timed.partition_by(["rank", "pid", "tid"], as_dict=True).items():
        if (frames := threads.get(key)) is None:
            continue
        start = _array(frames["start_ns"])
        index = innermost(_array(calls["start_ns"]), start, start + _array(frames["dur_ns"]))
        rows = _array(frames["row"].cast(pl.Int64))
        found[_array(calls["position"].cast(pl.Int64))] = np.where(
            index >= 0, rows[np.maximum(index, 0)], -1
        )
    return pl.Series(kind, found).replace(-1, None).cast(pl.UInt32)


def _array(series: pl.Series) -> NDArray[np.int64]:
    return series.to_numpy()
