"""Why the GPU was idle: every gap between activities, tiled into causes that add up to it exactly.

A gap ends with an activity; the launch of that activity splits the gap. Before the launch call began,
the GPU waited for the host: in part while the launching thread sat in a synchronizing or an allocating
call, otherwise while it ran other code. From the launch call on, the wait is the launch itself.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.attribution import Attributed
from solscope.events import LAUNCH_KINDS
from solscope.intervals import Int64s, Intervals, gaps, overlap, union

CAUSES = {
    "host": "the host launched late: the launching thread was busy with other code",
    "sync": "the host launched late: the launching thread sat in a synchronizing call",
    "alloc": "the host launched late: the launching thread was allocating or freeing memory",
    "launch": "already being launched: call, queue and dependency latency",
    "unlinked": "not known: the activity after the gap has no launch in the profile",
}
"""Each cause of idle time and what it means."""

_SYNC_CALL = re.compile(r"Synchronize|StreamWaitValue|EventQuery|^(cuda|hip)Memcpy(?!.*Async)")
_ALLOC_CALL = re.compile(r"Malloc|MemCreate|MemMap|^(cuda|hip)Free|^cuMem(Alloc|Free)|HostAlloc")


class IdleCause(msgspec.Struct, frozen=True):
    """One cause with its share."""

    cause: str
    time_ms: float
    gaps: int
    """Gaps in which this cause holds the largest part."""


def idle_causes(attributed: Attributed, activities: pl.DataFrame, busy: Intervals) -> list[IdleCause]:
    """Split the idle time of one device; `activities` are its own, `busy` their union."""
    idle = gaps(busy)
    if idle.start.size == 0:
        return []
    parts = _tile(attributed.profile.events, activities, idle)
    table = np.stack([parts[cause] for cause in CAUSES])
    largest = table.argmax(axis=0)
    return [
        IdleCause(cause, int(table[i].sum()) / 1e6, int((largest == i).sum()))
        for i, cause in enumerate(CAUSES)
        if table[i].any()
    ]


def _tile(
    events: pl.DataFrame, activities: pl.DataFrame, idle: Intervals
) -> dict[str, NDArray[np.int64]]:
    """Nanoseconds of each gap by cause; the causes of a gap sum to its length."""
    launch = _launch_ending(activities, idle)
    known = launch >= 0
    row = np.maximum(launch, 0)
    # A launch with no time of its own explains nothing.
    starts = events["start_ns"].gather(row)
    known &= ~starts.is_null().to_numpy()
    begun = np.where(known, starts.fill_null(0).to_numpy(), idle.end)
    begun = np.clip(begun, idle.start, idle.end)
    threads = _threads(events)[row]
    waits = {
        cause: _calls_by_thread(events, pattern, idle.start, begun, threads)
        for cause, pattern in (("sync", _SYNC_CALL), ("alloc", _ALLOC_CALL))
    }
    late = begun - idle.start
    sync = np.minimum(waits["sync"], late)
    alloc = np.minimum(waits["alloc"], late - sync)
    zero = np.zeros_like(late)
    return {
        "host": np.where(known, late - sync - alloc, zero),
        "sync": np.where(known, sync, zero),
        "alloc": np.where(known, alloc, zero),
        "launch": np.where(known, idle.end - begun, zero),
        "unlinked": np.where(known, zero, idle.end - idle.start),
    }


def _launch_ending(activities: pl.DataFrame, idle: Intervals) -> NDArray[np.int64]:
    """Row of the launch of the activity that ends each gap; -1 when it has none."""
    first = activities.sort("start_ns", maintain_order=True)
    index = np.searchsorted(first["start_ns"].to_numpy(), idle.end, side="left")
    launches = first["launch_row"].cast(pl.Int64).fill_null(-1).to_numpy()
    return launches[np.minimum(index, launches.size - 1)]


def _threads(events: pl.DataFrame) -> NDArray[np.int64]:
    return (
        events.select(pl.struct("rank", "pid", "tid").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    )


def _calls_by_thread(
    events: pl.DataFrame, pattern: re.Pattern[str], start: Int64s, end: Int64s, thread: Int64s
) -> NDArray[np.int64]:
    """How much of each [start, end) its thread spent in runtime calls that match `pattern`."""
    spent = np.zeros_like(start)
    calls = events.with_columns(pl.Series("thread", _threads(events))).filter(
        pl.col("kind").is_in(LAUNCH_KINDS)
        & pl.col("start_ns").is_not_null()
        & pl.col("dur_ns").is_not_null()
    )
    names = calls["name"].unique().drop_nulls().cast(pl.String)
    matching = names.filter(pl.Series([bool(pattern.search(name)) for name in names], dtype=pl.Boolean))
    calls = calls.filter(pl.col("name").cast(pl.String).is_in(matching.to_list()))
    for (key,), part in calls.partition_by("thread", as_dict=True).items():
        mine = thread == key
        begin = part["start_ns"].to_numpy()
        cover = union(begin, begin + part["dur_ns"].to_numpy())
        spent[mine] = overlap(start[mine], end[mine], cover)
    return spent
