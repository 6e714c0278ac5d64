"""From an attributed profile to lanes of events.

A lane is one row of the picture. Events that overlap on a stream, and calls that are nested, go to
lanes of their own below the first (`depth`), up to `MAX_DEPTH`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import polars as pl

from solscope.arrays import series
from solscope.attribution import Attributed
from solscope.events import LAUNCH_KINDS, THREAD
from solscope.intervals import Int64s, nest
from solscope.names import short_name
from solscope.views.device_time import DeviceTime, device_times
from solscope.views.idle import ALLOC_CALL, SYNC_CALL
from solscope.views.lanes.base import Label, Lane, LaneKind

MAX_DEPTH = 128
"""Lanes of nested calls, and of overlapping activities.

Deeper calls are counted. Further activities share the last lane, so that no GPU time is missing.
"""
SPREAD = 1 << 62
"""Labels that one number can tell apart."""
_LABEL = ("name", "category", "role", "op", "full")
_TEXT = pl.Categorical()
_SCHEMA = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "dur_ns": pl.Int64(),
        **dict.fromkeys(_LABEL, _TEXT),
        "layer": pl.Int64(),
        "step": pl.Int64(),
        "wait_ns": pl.Int64(),
    }
)


@dataclass(frozen=True)
class Laned:
    """The events of a profile by lane."""

    origin_ns: int
    span_ns: int
    lanes: list[Lane]
    labels: list[Label]
    events: pl.DataFrame
    """`lane`, `start_ns` (from the origin), `dur_ns`, `label`, `layer`, `step`, `wait_ns`, in the
    order of lanes and starts."""
    too_deep: int
    """Host calls that are nested deeper than `MAX_DEPTH`."""


def lay_out(attributed: Attributed) -> Laned:
    """All lanes of a profile, from steps at the top to the host's calls at the bottom."""
    lanes: list[Lane] = []
    frames: list[pl.DataFrame] = []
    too_deep = 0
    for kind, title, owner, table in _sources(attributed):
        table = _typed(table).sort("start_ns", maintain_order=True)
        depth = np.minimum(_depths(kind, table), MAX_DEPTH)
        if depth.any():
            # Short integers are sorted by their digits.
            order = np.argsort(depth.astype(np.int16), kind="stable")
            table = table.select(pl.all().gather(series("", order)))
        ends = np.cumsum(np.bincount(depth)[:MAX_DEPTH]).tolist()
        too_deep += table.height - ends[-1]
        for number, (first, end) in enumerate(pairwise([0, *ends])):
            lane_rows = table.slice(first, end - first)
            frames.append(lane_rows.with_columns(pl.lit(len(lanes), pl.UInt32).alias("lane")))
            lanes.append(Lane(kind, title, number, *owner, events=lane_rows.height))
    if not frames:
        return Laned(0, 0, [], [], _SCHEMA.to_frame(), 0)
    whole = pl.concat([_SCHEMA.to_frame(), *frames], how="diagonal")
    origin = int(whole["start_ns"].min())  # type: ignore[arg-type]
    end = int((whole["start_ns"] + whole["dur_ns"]).max())  # type: ignore[arg-type]
    labels, label = _labels(whole)
    events = whole.select(
        "lane",
        pl.col("start_ns") - origin,
        "dur_ns",
        label,
        *("layer", "step", "wait_ns"),
    )
    return Laned(origin, end - origin, lanes, labels, events, too_deep)


_Owner = tuple[int | None, int | None]
_Source = tuple[LaneKind, str, _Owner, pl.DataFrame]


def _sources(attributed: Attributed) -> Iterator[_Source]:
    """Kind, title, rank and device, and events of lanes that belong together; none is empty."""
    devices = device_times(attributed)
    sources = (
        *_tracks(attributed, devices),
        *(source for device in devices for source in _device_lanes(attributed, device, devices)),
        *_host_lanes(attributed),
    )
    return (source for source in sources if not source[3].is_empty())


def _tracks(attributed: Attributed, devices: list[DeviceTime]) -> Iterator[_Source]:
    nobody: _Owner = (None, None)
    steps = attributed.steps.filter(pl.col("start_ns").is_not_null())
    for (process,), track in steps.partition_by("process", as_dict=True).items():
        title = "steps" if steps["process"].n_unique() == 1 else f"steps of process {process}"
        dur = (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
        yield (
            "step",
            title,
            nobody,
            track.select("start_ns", dur, "name", pl.col("phase").alias("category"), "step"),
        )
    if not devices:
        return
    first = devices[0]
    passes = _extents(first.rows, ["step", "pass", "phase"])
    if passes.height > steps.height:
        name = pl.col("phase").cast(pl.String).fill_null("pass")
        phase = pl.col("phase").alias("category")
        named = passes.select("start_ns", "dur_ns", "step", phase, name.alias("name"))
        yield "pass", "passes", nobody, named
    layers = _extents(first.rows, ["step", "pass", "layer", "layer_kind"]).filter(
        pl.col("layer").is_not_null()
    )
    title = "layers" if len(devices) == 1 else f"layers of {_device_title(first, devices)}"
    named = layers.select(
        *("start_ns", "dur_ns", "step", "layer"),
        pl.col("layer_kind").alias("category"),
        pl.format("layer {}", "layer").alias("name"),
    )
    yield "layer", title, (first.rank, first.device), named


def _extents(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """From the first start to the last end of the activities that have the same key."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    placed = rows.filter(pl.col("step").is_not_null())
    return placed.group_by(key, maintain_order=True).agg(
        pl.col("start_ns").min(), (end.max() - pl.col("start_ns").min()).alias("dur_ns")
    )


def _device_title(device: DeviceTime, devices: list[DeviceTime]) -> str:
    ranks = len({device.rank for device in devices}) > 1
    rank = f"rank {device.rank} " if ranks and device.rank is not None else ""
    return f"{rank}GPU {device.device}" if device.device is not None else f"{rank}GPU"


def _device_lanes(
    attributed: Attributed, device: DeviceTime, devices: list[DeviceTime]
) -> Iterator[_Source]:
    title, owner = _device_title(device, devices), (device.rank, device.device)
    yield "idle", f"{title} idle", owner, _idle(device)
    starts = attributed.profile.events["start_ns"]
    rows = device.rows.with_columns(starts.gather(device.rows["launch_row"]).alias("launched_ns"))
    for stream in rows["stream"].unique().sort(nulls_last=True):
        stream_rows = rows.filter(pl.col("stream").eq_missing(pl.lit(stream, pl.Int64)))
        name = f"{title} stream {stream}" if stream is not None else f"{title}, no stream"
        yield "gpu", name, owner, _activities(stream_rows)


def _activities(rows: pl.DataFrame) -> pl.DataFrame:
    full = rows["name"].cast(pl.String).fill_null("(no name)")
    distinct = full.unique()
    short = [short_name(name) for name in distinct]
    name = full.replace_strict(distinct, short, return_dtype=pl.String)
    wait = pl.col("start_ns") - pl.col("launched_ns")
    return rows.select(
        *("start_ns", "dur_ns", "category", "role", "op", "layer", "step"),
        name.alias("name"),
        pl.when(full != name).then(full).alias("full"),
        # Clocks of host and GPU that disagree give no waiting time.
        pl.when(wait >= 0).then(wait).alias("wait_ns"),
    )


def _idle(device: DeviceTime) -> pl.DataFrame:
    """Gaps, cut where the launch that ends them began: before it by the main cause, then `launch`.

    The time before the launch can have several causes; it is shown as the largest of them.
    """
    gaps = device.gaps
    launched = pl.col("end_ns") - pl.col("launch")
    before = ["host", "sync", "alloc", "unlinked"]
    largest = pl.concat_list(before).list.arg_max()
    cause = pl.Series(before).gather(gaps.select(largest).to_series())
    parts = [
        gaps.select(
            "start_ns", (launched - pl.col("start_ns")).alias("dur_ns"), cause.alias("name")
        ),
        gaps.select(
            launched.alias("start_ns"),
            pl.col("launch").alias("dur_ns"),
            pl.lit("launch").alias("name"),
        ),
    ]
    return pl.concat(parts).filter(pl.col("dur_ns") > 0)


def _host_lanes(attributed: Attributed) -> Iterator[_Source]:
    """Calls into the runtime, and what was around them, of every thread that launches."""
    events = attributed.profile.events
    launches = attributed.activities["launch_row"].drop_nulls().unique()
    threads = events.select(THREAD)[launches.cast(pl.UInt32)].unique(maintain_order=True)
    timed = (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .with_row_index("row")
        .filter(
            pl.col("kind").is_in([*LAUNCH_KINDS, "cpu_op", "python", "annotation"])
            & pl.col("start_ns").is_not_null()
            & pl.col("dur_ns").is_not_null()
        )
        .collect()
    )
    # Few threads launch: to compare each row with each of them is faster than to hash all rows.
    by_thread = [(key, _of_thread(timed, key)) for key in threads.iter_rows()]
    by_thread = [(key, rows) for key, rows in by_thread if not rows.is_empty()]
    by_thread.sort(key=lambda thread: int(thread[1]["row"][0]))
    for (rank, _, thread), thread_rows in by_thread:
        title = f"thread {thread}" if thread is not None else "host"
        is_call = thread_rows["kind"].is_in(LAUNCH_KINDS)
        calls = thread_rows.filter(is_call)
        yield "call", f"{title} launches", (rank, None), _calls(calls, launches)
        around = thread_rows.filter(~is_call).select(
            "start_ns", "dur_ns", "name", pl.col("kind").alias("category")
        )
        yield "stack", f"{title} calls", (rank, None), around


def _of_thread(rows: pl.DataFrame, thread: tuple[int | None, ...]) -> pl.DataFrame:
    same = [
        pl.col(name).is_null() if value is None else pl.col(name) == value
        for name, value in zip(THREAD, thread, strict=True)
    ]
    return rows.lazy().filter(*same).drop(THREAD).collect()


def _calls(calls: pl.DataFrame, launches: pl.Series) -> pl.DataFrame:
    names = calls["name"].cast(pl.String)
    kinds = {name: _kind_of(name) for name in names.unique().drop_nulls()}
    kind = names.replace_strict(kinds, default=None, return_dtype=pl.String)
    launched = calls["row"].cast(pl.Int64).is_in(launches.cast(pl.Int64).implode())
    plain = pl.when(launched).then(pl.lit("launch")).otherwise(pl.lit("call"))
    category = pl.coalesce(kind, plain).alias("category")
    return calls.select("start_ns", "dur_ns", "name", category)


def _kind_of(name: str) -> str | None:
    """Whether a call waits or allocates; it may launch as well."""
    if SYNC_CALL.search(name):
        return "sync"
    return "alloc" if ALLOC_CALL.search(name) else None


def _typed(table: pl.DataFrame) -> pl.DataFrame:
    return table.select(pl.col(name).cast(_SCHEMA[name]) for name in table.columns)


def _depths(kind: LaneKind, table: pl.DataFrame) -> Int64s:
    """The lane of each event among those of its source; `table` is in the order of starts."""
    start = table["start_ns"].to_numpy()
    end = start + table["dur_ns"].to_numpy()
    if kind in ("call", "stack"):
        return _nested(nest(start, end))
    if kind == "gpu" and (start[1:] < np.maximum.accumulate(end)[:-1]).any():
        return _stacked(start, end)
    return np.zeros(start.size, dtype=np.int64)


def _nested(parent: Int64s) -> Int64s:
    """How many intervals are around each one."""
    # One more interval, around all others, takes the place of "none". Each round doubles how far
    # up `above` is, and `depth` counts the intervals up to there.
    above = np.append(np.where(parent < 0, parent.size, parent), parent.size)
    depth: Int64s = (above != parent.size).astype(np.int64)
    while (above != parent.size).any():
        depth += depth[above]
        above = above[above]
    return depth[:-1]


def _stacked(start: Int64s, end: Int64s) -> Int64s:
    """The first lane that is free when an event starts; the last one when all are busy."""
    depth = np.zeros(start.size, dtype=np.int64)
    free = list(range(MAX_DEPTH))
    busy: list[tuple[int, int]] = []
    rows = _overlapping(start, end)
    for index, begin, until in zip(
        rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True
    ):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            depth[index] = heappop(free)
            heappush(busy, (until, int(depth[index])))
        else:
            depth[index] = MAX_DEPTH - 1
    return depth


def _overlapping(start: Int64s, end: Int64s) -> Int64s:
    """Events that are not alone from their start to their end; the others need no second lane."""
    # Where everything before has ended, all lanes are free again.
    begins = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    return np.flatnonzero(~(begins & np.append(begins[1:], True)))


def _labels(events: pl.DataFrame) -> tuple[list[Label], pl.Series]:
    """The distinct labels, and which one each event has."""
    keys = events.select(_number(events).alias("key"))
    distinct = keys.with_row_index("row").unique("key", keep="first", maintain_order=True)
    label = keys.join(
        distinct.with_row_index("label"), on="key", how="left", maintain_order="left"
    )["label"]
    rows = events.select(_LABEL)[distinct["row"]].select(pl.col(_LABEL).cast(pl.String))
    rows = rows.with_columns(pl.col("name").fill_null("(no name)"))
    return [Label(*row) for row in rows.iter_rows()], label


def _number(events: pl.DataFrame) -> pl.Expr:
    """One value per distinct label: a number, unless numbers would become too large."""
    key, size = pl.lit(0, pl.Int64), 1
    for name in _LABEL:
        # Null is 0, and everything else one more than its code.
        codes = events[name].to_physical()
        most = int(codes.max() or 0) + 2  # type: ignore[arg-type]
        size *= most
        key = key * most + (pl.col(name).to_physical().cast(pl.Int64) + 1).fill_null(0)
    return key if size <= SPREAD else pl.struct(pl.col(_LABEL).to_physical())
