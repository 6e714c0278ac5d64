"""Why the GPU was idle: every gap between activities, tiled into causes that add up to it exactly.

A gap ends with an activity; the launch of that activity splits the gap. Before the launch call
began, the GPU waited for the host: in part while the launching thread sat in a synchronizing or an
allocating call, otherwise while it ran other code. From the launch call on, the wait is the launch
itself.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import numbers, pick, positions, series, take
from solscope.attribution import Attributed
from solscope.events import LAUNCH_KINDS, THREAD
from solscope.intervals import Int64s, Intervals, gaps, overlap, union
from solscope.once import once
from solscope.patterns import lazy_pattern
from solscope.queries import collect

CAUSES = {
    "host": "launched late: host in other code, or not running",
    "sync": "launched late: the host sat in a synchronizing call",
    "alloc": "launched late: the host was allocating or freeing memory",
    "launch": "launched, but waiting: call latency, queue, other work",
    "unlinked": "not known: the next activity has no launch here",
}
"""Each cause of idle time and what it means."""

SYNC_CALL = lazy_pattern(r"Synchronize|StreamWaitValue|EventQuery|^(cuda|hip)Memcpy(?!.*Async)")
"""Names of calls in which the host waits for the GPU."""
ALLOC_CALL = lazy_pattern(r"Malloc|MemCreate|MemMap|^(cuda|hip)Free|^cuMem(Alloc|Free)|HostAlloc")
"""Names of calls that allocate or free memory."""


class IdleCause(msgspec.Struct, frozen=True):
    """One cause with its share."""

    cause: str
    time_ms: float
    gaps: int
    """Gaps in which this cause holds the largest part."""


def idle_causes(table: pl.DataFrame) -> list[IdleCause]:
    """The idle time of one device by cause, from its `idle_gaps`."""
    return [
        IdleCause(cause, int(table[cause].sum()) / 1e6, int((table["cause"] == cause).sum()))
        for cause in CAUSES
        if (table[cause] != 0).any()
    ]


def idle_gaps(attributed: Attributed, activities: pl.DataFrame, busy: Intervals) -> pl.DataFrame:
    """Every gap of one device: `start_ns`, `end_ns`, `cause` (the largest), and ns per cause.

    `activities` are those of the device, `busy` is their union.
    """
    idle = gaps(busy)
    parts = dict.fromkeys(CAUSES, np.zeros(0, dtype=np.int64))
    if idle.start.size:
        parts = _tile(attributed.profile.events, activities, idle)
    largest = np.stack([parts[cause] for cause in CAUSES]).argmax(axis=0)
    causes = take(pl.Series("cause", list(CAUSES)), series("", largest))
    numbers = {"start_ns": idle.start, "end_ns": idle.end, **parts}
    table = pl.DataFrame([series(name, values) for name, values in numbers.items()])
    return table.insert_column(2, causes)


def _tile(events: pl.DataFrame, activities: pl.DataFrame, idle: Intervals) -> dict[str, Int64s]:
    """Nanoseconds of each gap by cause; the causes of a gap sum to its length."""
    calls = host_calls(events)
    launch = launch_ending(activities, idle, calls)
    launched = launch["start_ns"].is_not_null().to_numpy()
    begun = np.where(launched, launch["start_ns"].fill_null(0).to_numpy(), idle.end)
    begun = np.clip(begun, idle.start, idle.end)
    late = begun - idle.start
    sync = _spent(calls, SYNC_CALL, launch, idle.start, begun)
    alloc = np.minimum(_spent(calls, ALLOC_CALL, launch, idle.start, begun), late - sync)
    zero = np.zeros_like(late)
    return {
        "host": np.where(launched, late - sync - alloc, zero),
        "sync": np.where(launched, sync, zero),
        "alloc": np.where(launched, alloc, zero),
        "launch": np.where(launched, idle.end - begun, zero),
        "unlinked": np.where(launched, zero, idle.end - idle.start),
    }


@once
def host_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Timed runtime and driver calls with their row."""
    return collect(
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .with_row_index("row")
        .filter(pl.col("kind").is_in(LAUNCH_KINDS) & pl.col("start_ns").is_not_null())
        .with_columns(pl.col("dur_ns").fill_null(0))
    )


def launch_ending(activities: pl.DataFrame, idle: Intervals, calls: pl.DataFrame) -> pl.DataFrame:
    """Start, duration and thread of the launch of what ends each gap; null when unknown."""
    first = activities.select("start_ns", "launch_row").sort("start_ns", maintain_order=True)
    index = np.searchsorted(first["start_ns"].to_numpy(), idle.end, side="left")
    rows = take(first["launch_row"], series("", np.minimum(index, first.height - 1)))
    return pick(calls, positions("", places(calls, rows)), ("start_ns", "dur_ns", *THREAD))


def places(calls: pl.DataFrame, rows: pl.Series) -> Int64s:
    """Where in `calls`, which have a `row` each in ascending order, these rows are; -1 if not."""
    known, wanted = numbers(calls["row"]), numbers(rows)
    if not known.size:
        return np.full(wanted.size, -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[place] == wanted, place, -1)


def _spent(
    calls: pl.DataFrame, pattern: re.Pattern[str], launch: pl.DataFrame, start: Int64s, end: Int64s
) -> Int64s:
    """How much of each [start, end) the launching thread spent in calls that match `pattern`."""
    names = calls["name"].unique().drop_nulls()
    matching = names.filter(
        pl.Series([bool(pattern.search(name)) for name in names], dtype=pl.Boolean)
    )
    threads = calls.filter(pl.col("name").is_in(matching.to_list())).partition_by(
        THREAD, as_dict=True
    )
    spent = np.zeros_like(start)
    gaps_by_thread = launch.select(THREAD).with_row_index("gap").partition_by(THREAD, as_dict=True)
    for key, thread_gaps in gaps_by_thread.items():
        if (thread := threads.get(key)) is None:
            continue
        gap = thread_gaps["gap"].to_numpy()
        begin = thread["start_ns"].to_numpy()
        cover = union(begin, begin + thread["dur_ns"].to_numpy())
        spent[gap] = overlap(start[gap], end[gap], cover)
    return spent
