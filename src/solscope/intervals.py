"""Exact arithmetic on intervals of int64 nanoseconds. Intervals are half open: [start, end)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint intervals in ascending order."""

    start: Int64s
    end: Int64s

    @property
    def length(self) -> int:
        """Total length, ns."""
        return int((self.end - self.start).sum())


def union(start: Int64s, end: Int64s) -> Intervals:
    """The union of any intervals, as disjoint ones; touching intervals are joined."""
    if start.size == 0:
        return Intervals(start, end)
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(start.size, dtype=bool)
    opens[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(opens)[1:] - 1, start.size - 1)
    return Intervals(start[opens], reach[last])


def gaps(busy: Intervals) -> Intervals:
    """The intervals between the first start and the last end that `busy` leaves free."""
    return Intervals(busy.end[:-1], busy.start[1:])


def covered_before(cover: Intervals, at: Int64s) -> Int64s:
    """How much of `cover` lies before each point."""
    if cover.start.size == 0:
        return np.zeros(at.shape, dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(cover.end - cover.start)))
    index = np.searchsorted(cover.start, at, side="right")
    last = np.maximum(index - 1, 0)
    inside = np.where(index > 0, np.minimum(at, cover.end[last]) - cover.start[last], 0)
    return np.asarray(total[last] * (index > 0) + inside, dtype=np.int64)


def overlap(start: Int64s, end: Int64s, cover: Intervals) -> Int64s:
    """How much of each interval `cover` covers."""
    return covered_before(cover, end) - covered_before(cover, start)


def nest(start: Int64s, end: Int64s) -> NDArray[np.int64]:
    """For each interval the index of the innermost one that holds its start, or -1.

    Intervals of one thread, as a call stack leaves them. Where two only overlap (rounded clocks),
    the one that began first and is still open counts as the outer one.
    """
    size = start.size
    parent = np.full(size, -1, dtype=np.int64)
    if size == 0:
        return parent
    end = np.maximum(end, start + 1)
    order = np.lexsort((-end, start))
    s, e = start[order], end[order]
    # In a proper nesting the depth is the number of intervals begun before and not yet ended.
    depth = np.arange(size) - np.searchsorted(np.sort(e), s, side="right")
    key = depth * size + np.arange(size)
    by_depth = np.argsort(key, kind="stable")
    found = np.searchsorted(key[by_depth], key - size) - 1
    inner = depth > 0
    above = by_depth[np.maximum(found, 0)]
    proper = ~inner | (
        (found >= 0) & (depth[above] == depth - 1) & (e[above] >= e) & (above < np.arange(size))
    )
    if not proper.all() or (depth < 0).any():
        above, inner = _nest_by_stack(s, e)
    parent[order] = np.where(inner, order[above], -1)
    return parent


def _nest_by_stack(start: Int64s, end: Int64s) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`nest` for intervals that overlap without nesting; sorted by start, longest first."""
    above = np.zeros(start.size, dtype=np.int64)
    inner = np.zeros(start.size, dtype=bool)
    stack: list[int] = []
    ends = end.tolist()
    for index, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            above[index], inner[index] = stack[-1], True
        stack.append(index)
    return above, inner


def innermost(at: Int64s, start: Int64s, end: Int64s) -> NDArray[np.int64]:
    """For each point the index of the innermost interval that holds it, or -1. One thread."""
    if start.size == 0 or at.size == 0:
        return np.full(at.shape, -1, dtype=np.int64)
    order = np.lexsort((-end, start))
    s, e = start[order], end[order]
    parent = nest(s, e)
    found = np.searchsorted(s, at, side="right") - 1
    while True:
        ended = (found >= 0) & (e[np.maximum(found, 0)] <= at)
        if not ended.any():
            break
        found = np.where(ended, parent[np.maximum(found, 0)], found)
    return np.where(found >= 0, order[np.maximum(found, 0)], -1)
