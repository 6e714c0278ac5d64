"""Exact arithmetic on intervals of int64 nanoseconds. Intervals are half open: [start, end)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Int64s = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]


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


def covered_before(cover: Intervals, times: Int64s) -> Int64s:
    """Length of `cover` before each point."""
    if cover.start.size == 0 or times.size == 0:
        return np.zeros(times.shape, dtype=np.int64)
    total = np.cumsum(cover.end - cover.start)
    # Before the first interval lies one of no length, which saves asking for it.
    low = min(int(times.min()), int(cover.start[0]))
    end = np.append(low, cover.end)
    before = np.append(-low, np.append(0, total[:-1]) - cover.start)
    index = _begun_before(cover.start, times)
    return np.asarray(before[index] + np.minimum(times, end[index]), dtype=np.int64)


def _begun_before(start: Int64s, times: Int64s) -> Int64s:
    """How many of `start`, which ascend, are at or before each point."""
    if times.ndim == 1 and start.size < times.size and (times[1:] >= times[:-1]).all():
        # Fewer searches: for each start the first point that is not before it.
        first = np.searchsorted(times, start, side="left")
        points = np.diff(first, prepend=0, append=times.size)
        return np.repeat(np.arange(start.size + 1), points)
    return np.searchsorted(start, times, side="right")


def overlap(start: Int64s, end: Int64s, cover: Intervals) -> Int64s:
    """How much of each interval `cover` covers."""
    if cover.start.size == 0 or start.ndim != 1:
        return covered_before(cover, end) - covered_before(cover, start)
    # Most intervals end before the next one of the cover begins.
    begun = _begun_before(cover.start, start)
    last = np.append(np.iinfo(np.int64).min, cover.end)[begun]
    covered: Int64s = np.minimum(end, last) - np.minimum(start, last)
    following = np.append(cover.start, np.iinfo(np.int64).max)[begun]
    rest = np.flatnonzero((end > following) | (end < start))
    covered[rest] = covered_before(cover, end[rest]) - covered_before(cover, start[rest])
    return covered


def alone(start: Int64s, end: Int64s) -> Int64s:
    """How long each interval is the only one."""
    number = np.arange(start.size)
    when = np.concatenate([start, end])
    order = np.argsort(when, kind="stable")
    open_now = np.cumsum(np.repeat((1, -1), start.size)[order])[:-1]
    # Of one open interval, the sum of those that are open is its own number.
    which = np.cumsum(np.concatenate([number, -number])[order])[:-1]
    single = open_now == 1
    lengths = np.zeros(start.size, dtype=np.int64)
    np.add.at(lengths, which[single], np.diff(when[order])[single])
    return lengths


def nest(start: Int64s, end: Int64s) -> Int64s:
    """For each interval the index of the innermost one that holds its start, or -1.

    Intervals of one thread, as a call stack leaves them. Where two only overlap (rounded clocks),
    the one that began first and is still open counts as the outer one.
    """
    order, s, e = _outer_first(start, end)
    above = _nest(s, e)[0]
    if order is None:
        return above
    parent = np.empty_like(above)
    parent[order] = np.where(above >= 0, order[above], -1)
    return parent


def nesting_depth(start: Int64s, end: Int64s) -> Int64s:
    """How many intervals are around each one, as `nest` nests them."""
    order, s, e = _outer_first(start, end)
    above, depth = _nest(s, e)
    if depth is None:
        depth = _count_above(above)
    if order is None:
        return depth
    depths = np.empty_like(depth)
    depths[order] = depth
    return depths


def _outer_first(start: Int64s, end: Int64s) -> tuple[Int64s | None, Int64s, Int64s]:
    """The order of starts, of those that start together the longest first, and both in it.

    The order is None where they are in it already. An interval of no length gets one.
    """
    end = np.maximum(end, start + 1, dtype=np.int64)
    order = None
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    same = np.zeros(start.size + 1, dtype=bool)
    np.equal(start[1:], start[:-1], out=same[1:-1])
    if same.any():
        # Few start together, and only those are to be sorted once more.
        together = np.flatnonzero(same[1:] | same[:-1])
        by_length = together[np.lexsort((-end[together], start[together]))]
        order = np.arange(start.size) if order is None else order
        order[together], end[together] = order[by_length], end[by_length]
    return order, start, end


def _nest(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s | None]:
    """The last interval before each one that ends after its start, or -1; how many are around it.

    Intervals are in the order of `_outer_first`. Their number is None where it takes longer.
    """
    native = _native_nest()
    if native is not None:
        above, depth = np.empty(start.size, np.int64), np.empty(start.size, np.int64)
        native(np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end), above, depth)
        return above, depth
    jumped = _nest_by_jumps(start, end)
    return (_nest_by_stack(start, end) if jumped is None else jumped), None


def _native_nest() -> Callable[[Int64s, Int64s, Int64s, Int64s], None] | None:
    """`nest` in C++, where it was built and not forbidden."""
    if os.environ.get("SOLSCOPE_CORE") == "python":
        return None
    try:
        from solscope._native._nesting import nest
    except ImportError:
        return None
    return nest


def _count_above(above: Int64s) -> Int64s:
    """How many steps `above` leads up from each interval."""
    # One more interval, around all others, takes the place of "none". Each round doubles how far
    # up `above` is, and `depth` counts the intervals up to there.
    top = above.size
    above = np.append(np.where(above < 0, top, above), top)
    depth: Int64s = (above != top).astype(np.int64)
    while (above != top).any():
        depth += depth[above]
        above = above[above]
    return depth[:-1]


_JUMPS = 32
"""Jumps per interval after which a stack is faster."""
_ROUND = 1_000
"""Jumps that take as long as the calls of one round."""


def _nest_by_jumps(start: Int64s, end: Int64s) -> Int64s | None:
    """What `_nest` finds.

    All intervals look at once. One that has to look further goes on to where the interval it
    looks at is looking: whatever lies between had ended when that one started. This skips whole
    calls, and twice as many neighbors in each round. None if it takes too many rounds.
    """
    above = np.arange(-1, start.size - 1)
    above[1:][start[1:] >= np.maximum.accumulate(end)[:-1]] = -1
    left = np.flatnonzero(above >= 0)
    left = left[end[above[left]] <= start[left]]
    work = 0
    while left.size:
        work += left.size + _ROUND
        if work > _JUMPS * start.size:
            return None
        # Those that are left have an outer interval, so that they stop before -1.
        above[left] = above[above[left]]
        left = left[end[above[left]] <= start[left]]
    return above


def _nest_by_stack(start: Int64s, end: Int64s) -> Int64s:
    """The same, one interval after the other."""
    above = np.full(start.size, -1, dtype=np.int64)
    stack: list[int] = []
    ends = end.tolist()
    for index, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            above[index] = stack[-1]
        stack.append(index)
    return above


def innermost(times: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """For each point the index of the innermost interval that holds it, or -1. One thread."""
    if start.size == 0 or times.size == 0:
        return np.full(times.shape, -1, dtype=np.int64)
    where = np.argsort(times, kind="stable")
    order = np.lexsort((-end, start))
    s, e = start[order], end[order]
    parent = nest(s, e)
    if ((parent >= 0) & (e > e[np.maximum(parent, 0)])).any() or (s >= e).any():
        inner = _innermost_by_stack(times[where], s, e)
    else:
        position = np.searchsorted(s, times[where], side="right")
        depth = position - np.searchsorted(np.sort(e), times[where], side="right")
        inner = _last_at_depth(s, e, position, depth - 1)
    out = np.full(times.shape, -1, dtype=np.int64)
    out[where] = np.where(inner >= 0, order[np.maximum(inner, 0)], -1)
    return out


def _last_at_depth(start: Int64s, end: Int64s, position: Int64s, depth: Int64s) -> Int64s:
    """The last of properly nested intervals at a depth before a position in order, or -1."""
    size = start.size
    own = np.arange(size) - np.searchsorted(np.sort(end), start, side="right")
    key = own * (size + 1) + np.arange(size)
    by_depth = np.argsort(key, kind="stable")
    index = np.searchsorted(key[by_depth], depth * (size + 1) + position) - 1
    last = by_depth[np.maximum(index, 0)]
    return np.where((depth >= 0) & (index >= 0) & (own[last] == depth), last, -1)


def _innermost_by_stack(times: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """`innermost` for intervals that overlap without nesting; points and intervals sorted."""
    innermost = np.full(times.size, -1, dtype=np.int64)
    stack: list[int] = []
    starts, ends = start.tolist(), end.tolist()
    opened = 0
    for index, point in enumerate(times.tolist()):
        while opened < len(starts) and starts[opened] <= point:
            while stack and ends[stack[-1]] <= starts[opened]:
                stack.pop()
            stack.append(opened)
            opened += 1
        while stack and ends[stack[-1]] <= point:
            stack.pop()
        if stack:
            innermost[index] = stack[-1]
    return innermost


class Stray(NamedTuple):
    """A few intervals far away from all the others."""

    gap: int
    """Length of the gap between them and the rest."""
    start: int
    end: int
    """Bounds of the gap."""
    few: int
    """Number of intervals on the smaller side."""
    before: bool
    """True if they are before the gap."""


def find_stray(start: Int64s, end: Int64s, one_in: int) -> Stray | None:
    """A gap of over a quarter of the span with at most `1 / one_in` of all on one side, if any."""
    busy = union(start, end)
    free = gaps(busy)
    if free.start.size == 0:
        return None
    length = free.end - free.start
    longest = int(np.argmax(length))
    before = int((start < free.end[longest]).sum())
    few = min(before, start.size - before)
    span = int(busy.end[-1] - busy.start[0])
    if length[longest] * 4 <= span or few * one_in > start.size:
        return None
    return Stray(
        int(length[longest]), int(free.start[longest]), int(free.end[longest]), few, before == few
    )
