"""The critical path through host and GPU: which of them each nanosecond of the span waited for.

Back from the end of the last activity. An activity follows the one before it on its GPU (of several
that overlap, the one that ends last), unless it was launched after that had ended. Then the path
goes on along the host, back to where the host last waited for the GPU, or to the start. The parts
tile the span: each activity counts up to the start of the one that follows it on the path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import series
from solscope.intervals import Int64s, Intervals, union
from solscope.views.device_time import DeviceTime, bounds
from solscope.views.idle import SYNC_CALL, places
from solscope.views.slack import OperatorSlack, Wait, slack_by_operator, slacks


class PathPart(msgspec.Struct, frozen=True):
    """GPU time of one category: all of it, and what is on the critical path."""

    category: str
    time_ms: float
    on_path_ms: float
    idle_after_ms: float
    """Idle time of the GPU right after its activities, on the path or not."""


class CriticalPath(msgspec.Struct, frozen=True):
    """The path of all steps in ns; `gpu_ns`, `host`, `launch_ns` and `sync_ns` add to the span."""

    gpu_ns: int
    host: Intervals
    """When the path is on the host."""
    launch_ns: int
    """Latency: from a launch call to its activity, and gaps between activities in a queue."""
    sync_ns: int
    """From the end of the GPU's work to the return of the call that waited for it."""
    parts: list[PathPart]
    operators: list[OperatorSlack]


_USED = ("kind", "category", "operator", "op", "start_ns", "dur_ns", "launch_row")
"""Columns of activities that the path is about."""


def critical_path(time: DeviceTime, calls: pl.DataFrame, thread: dict[str, object]) -> CriticalPath:
    """The path of one GPU and of the thread that launches its work."""
    rows = time.rows.select(_USED).sort("start_ns", "dur_ns", maintain_order=True)
    start, end = bounds(rows)
    place = places(calls, rows["launch_row"])
    launch = np.append(calls["start_ns"].to_numpy(), -1)[place]  # -1 where there is none
    last = _ends_last(end)
    waits = _synchronizing(calls, thread, rows)
    returns = _returns(waits, start, end[last])
    on_path, host, latency, sync = _walk(start, end, last, launch, returns)
    return CriticalPath(
        gpu_ns=int(on_path.sum()),
        host=host,
        launch_ns=latency,
        sync_ns=sync,
        parts=_parts(rows["category"], start, end, on_path, _idle_after(start, end, last)),
        operators=slack_by_operator(rows, on_path, slacks(start, end, launch, waits, on_path)),
    )


def _ends_last(end: Int64s) -> Int64s:
    """For each activity, in order of start, the one up to it that ends last."""
    reach = np.maximum.accumulate(end)
    new = end >= np.append(end[:1], reach[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(end.size), 0))


def _synchronizing(
    calls: pl.DataFrame, thread: dict[str, object], rows: pl.DataFrame
) -> list[Wait]:
    """Calls in which the launching thread waits for the GPU, in the order of their returns.

    A copy to or from memory that is not pinned waits in an asynchronous call, which returns after
    the copy's end.
    """
    own = pl.lit(value=True)
    for name, value in thread.items():
        own &= pl.col(name).eq_missing(pl.lit(value))
    mine = calls.filter(own)
    distinct = mine["name"].unique().cast(pl.String)
    names = [name for name in distinct if name and SYNC_CALL.search(name)]
    began, ended = bounds(mine.filter(pl.col("name").is_in(names)))
    returns = (pl.col("start_ns") + pl.col("dur_ns")).alias("returns")
    begun = pl.col("start_ns").alias("begun")
    copies = rows.filter(pl.col("kind") == "memcpy").join(
        mine.select(pl.col("row").alias("launch_row"), begun, returns), on="launch_row"
    )
    blocked = copies.filter(pl.col("returns") >= pl.col("start_ns") + pl.col("dur_ns"))
    synchronized = zip(began.tolist(), ended.tolist(), strict=True)
    copied = blocked.select("begun", "returns").iter_rows()
    return sorted([*synchronized, *copied], key=lambda wait: wait[1])


def _returns(waits: list[Wait], start: Int64s, reach: Int64s) -> list[int]:
    """Returns of those that waited: one that begins after all work has ended waits for nothing."""
    began, ended = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    before = np.searchsorted(start, ended, side="left")
    waited = (before > 0) & (reach[np.maximum(before - 1, 0)] > began)
    return ended[waited].tolist()  # type: ignore[no-any-return]


def _walk(
    start: Int64s, end: Int64s, last: Int64s, launch: Int64s, waits: list[int]
) -> tuple[Int64s, Intervals, int, int]:
    """Nanoseconds of each activity on the path, the host's part, the latency and the returns."""
    on_path = np.zeros(start.size, dtype=np.int64)
    starts, ends, holder, called_at = (a.tolist() for a in (start, end, last, launch))
    first, latency, sync = starts[0], 0, 0
    host: list[tuple[int, int]] = []
    activity, until = holder[-1], ends[holder[-1]]
    while True:
        begin = starts[activity]
        on_path[activity] = until - begin
        earlier = bisect_left(starts, begin)
        if not earlier:
            break
        at_before = holder[earlier - 1]
        until = min(ends[at_before], begin)
        # A clock that is off may put a launch after the start of its activity.
        called = min(called_at[activity], begin)
        if called <= until:  # queued behind the activity before, or the launch is not known
            latency += begin - until
            activity = at_before
            continue
        latency += begin - called
        wait = bisect_right(waits, called) - 1
        back = max(first, waits[wait]) if wait >= 0 else first
        host.append((back, called))
        if back == first:
            break
        activity = holder[bisect_left(starts, back) - 1]
        until = min(ends[activity], back)
        sync += back - until
    edges = np.array(host[::-1], dtype=np.int64).reshape(-1, 2)
    return on_path, union(edges[:, 0], edges[:, 1]), latency, sync


def _idle_after(start: Int64s, end: Int64s, last: Int64s) -> Int64s:
    """Idle time that follows each activity which ends last before a gap."""
    idle = np.zeros(start.size, dtype=np.int64)
    gap = start[1:] - end[last[:-1]]
    opens = gap > 0
    idle[last[:-1][opens]] = gap[opens]
    return idle


def _parts(
    category: pl.Series, start: Int64s, end: Int64s, on_path: Int64s, idle: Int64s
) -> list[PathPart]:
    numbers = {"time": end - start, "path": on_path, "idle": idle}
    columns = [series(name, values) for name, values in numbers.items()]
    table = pl.DataFrame([category.cast(pl.String).alias("category"), *columns])
    order = ("path", "time", "category")
    grouped = (
        table.group_by("category")
        .agg(pl.all().sum())
        .sort(order, descending=[True, True, False], nulls_last=True)
    )
    return [PathPart(n, t / 1e6, p / 1e6, i / 1e6) for n, t, p, i in grouped.iter_rows()]
