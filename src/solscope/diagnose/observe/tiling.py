"""Tile the time line of one GPU into disjoint states.

At every moment a GPU computes, else communicates, else copies, else idles. Where several activities
run at once, the one that began first has the time (compute before communication before copies).
Idle time is split by what the thread was doing that launched the activity which ended it; see
`host_line.py`. Pieces are cut at the starts of steps, so that the states of a step add up to its
wall time to the nanosecond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.diagnose.observe.host_line import HostLines
from solscope.diagnose.observe.pieces import Pieces, split
from solscope.events import THREAD
from solscope.intervals import Int64s, Intervals, gaps, overlap, union
from solscope.views.idle import launch_ending

GROUPS = ("compute", "comm", "memcpy")
"""States of a busy GPU, those that win first."""


class IdlePieces(NamedTuple):
    """Idle time: pieces whose owner is a gap, with what the host was doing."""

    pieces: Pieces
    labels: list[str]


def busy_pieces(activities: pl.DataFrame, edges: Int64s) -> Pieces:
    """Exposed pieces of activities (owner: row of `activities`, which are sorted by start)."""
    start = activities["start_ns"].to_numpy()
    end = start + activities["dur_ns"].to_numpy()
    group = group_of(activities)
    parts = []
    above: Intervals = Intervals(start[:0], end[:0])
    for number in range(len(GROUPS)):
        rows = np.flatnonzero(group == number)
        own = _first_come(start[rows], end[rows])
        for free in _outside(own, above):
            pieces = split(free.start, free.end, rows[free.owner], edges)
            parts.append(pieces)
        above = _join(above, union(start[rows], end[rows]))
    return Pieces(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def group_of(activities: pl.DataFrame) -> Int64s:
    """Index into `GROUPS` of each activity."""
    comm = (activities["category"] == "comm").to_numpy()
    memcpy = (activities["kind"] == "memcpy").to_numpy()
    return np.where(memcpy, 2, np.where(comm, 1, 0))


class _Owned(NamedTuple):
    start: Int64s
    end: Int64s
    owner: Int64s


def _first_come(start: Int64s, end: Int64s) -> _Owned:
    """Of sorted intervals, what each covers and none before it does."""
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
    begin = np.maximum(start, reach[: start.size])
    nonempty = end > begin
    return _Owned(begin[nonempty], end[nonempty], np.flatnonzero(nonempty))


def _outside(own: _Owned, cover: Intervals) -> list[_Owned]:
    """The parts of intervals that `cover` leaves free."""
    if cover.start.size == 0 or own.start.size == 0:
        return [own]
    touched = overlap(own.start, own.end, cover) > 0
    free = _Owned(own.start[~touched], own.end[~touched], own.owner[~touched])
    if not touched.any():
        return [free]
    edges = np.unique(np.concatenate([cover.start, cover.end]))
    low, high = own.start[touched].min(), own.end[touched].max()
    edges = np.unique(np.concatenate([[min(low, edges[0]) - 1], edges, [max(high, edges[-1]) + 1]]))
    cut = split(own.start[touched], own.end[touched], own.owner[touched], edges)
    hidden = overlap(cut.start, cut.end, cover) > 0
    return [free, _Owned(cut.start[~hidden], cut.end[~hidden], cut.owner[~hidden])]


def _join(first: Intervals, second: Intervals) -> Intervals:
    return union(
        np.concatenate([first.start, second.start]), np.concatenate([first.end, second.end])
    )


def idle_pieces(
    calls: pl.DataFrame, activities: pl.DataFrame, lines: HostLines, edges: Int64s
) -> IdlePieces:
    """Idle time between `edges`, by what the launching thread was doing."""
    start = activities["start_ns"].to_numpy()
    idle = gaps(union(start, start + activities["dur_ns"].to_numpy()))
    inside = (idle.end > edges[0]) & (idle.start < edges[-1])
    idle = Intervals(idle.start[inside], idle.end[inside])
    launch = launch_ending(activities, idle, calls)
    launched = launch["start_ns"].is_not_null().to_numpy()
    begun = np.where(launched, launch["start_ns"].fill_null(0).to_numpy(), idle.end)
    begun = np.clip(begun, idle.start, idle.end)
    called = launch["start_ns"].fill_null(0) + launch["dur_ns"].fill_null(0)
    done = np.clip(np.where(launched, called.to_numpy(), idle.end), begun, idle.end)
    gap = np.arange(idle.start.size)
    out: list[tuple[Pieces, list[str]]] = []
    for mask, a, b, label in (
        (~launched, idle.start, idle.end, "unlinked"),
        (launched, begun, done, "launch_call"),
        (launched, done, idle.end, "launch_wait"),
    ):
        pieces = split(a[mask], b[mask], gap[mask], edges)
        out.append((pieces, [label] * pieces.start.size))
    threads = launch.select(THREAD).with_row_index("gap").filter(pl.Series(launched))
    for key, of_thread in threads.partition_by(THREAD, as_dict=True).items():
        gap_of = of_thread["gap"].to_numpy()
        late = split(idle.start[gap_of], begun[gap_of], gap[gap_of], edges)
        out += lines.label(key, late)
    pieces = Pieces(*(np.concatenate(c) for c in zip(*(p for p, _ in out), strict=True)))
    return IdlePieces(pieces, [label for _, labels in out for label in labels])
