"""Offsets between the clocks of two ranks, and the calls that end together at one.

Of all differences between ends of calls of the same kind and size, the true offset is the one that
most pairs agree on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOGETHER_NS = 100_000.0
"""Ends that lie closer than this may be those of one collective; NCCL's do, over sockets too."""
WINDOWS = ((96, 5), (12, 9))
"""Stretches of the reference from which an offset is looked for: how many calls, how many of them.
Short ones fit recordings that overlap in part."""
LIKE = 0.8
"""Share of the calls of a stretch that must be of the same kind and size on both ranks."""


@dataclass(frozen=True)
class Calls:
    """Calls of one rank in one group, in order of their ends."""

    row: Ints
    key: NDArray[np.int64]
    start: Floats
    end: Floats
    sequence: Ints
    """-1 where none is recorded."""


def offsets(base: Calls, other: Calls) -> list[float]:
    """Differences between the clocks on which calls may end together."""
    offsets: list[float] = []
    for length, count in WINDOWS:
        starts = np.linspace(0, max(0, base.row.size - length), count).astype(int)
        for start in np.unique(starts):
            stretch = slice(start, start + length)
            offsets += _fits(base, other, stretch)
            if length == WINDOWS[0][0]:
                same = base.key[stretch, None] == other.key[None, :]
                mine, _ = np.nonzero(same)
                offsets += _peaks((other.end[None, :] - base.end[stretch, None])[same], mine)
    return offsets


def _fits(base: Calls, other: Calls, stretch: slice, most: int = 2) -> list[float]:
    """Offsets at which the times between calls of a stretch are most alike on both ranks."""
    ends, keys = base.end[stretch], base.key[stretch]
    if ends.size < 4 or other.end.size < ends.size:
        return []
    theirs = np.lib.stride_tricks.sliding_window_view(other.end, ends.size)
    their_keys = np.lib.stride_tricks.sliding_window_view(other.key, ends.size)
    apart = np.median(np.abs(np.diff(theirs, axis=1) - np.diff(ends)), axis=1)
    apart = np.where((their_keys == keys).mean(1) >= LIKE, apart, np.inf)
    best = [
        candidate
        for candidate in np.argsort(apart, kind="stable")[:most]
        if np.isfinite(apart[candidate])
    ]
    return [float(np.median(theirs[candidate] - ends)) for candidate in best]


def _peaks(differences: Floats, mine: Ints, most: int = 3) -> list[float]:
    """Centers of the densest stretches of `TOGETHER_NS`, each call counted once."""
    if differences.size == 0:
        return []
    order = np.argsort(differences, kind="stable")
    sorted_differences, who = differences[order], mine[order]
    until = np.searchsorted(sorted_differences, sorted_differences + TOGETHER_NS, side="right")
    counts = until - np.arange(until.size)
    peaks: list[float] = []
    least = min(3, np.unique(mine).size)
    while len(peaks) < most and counts.max() > 0:
        highest = int(np.argmax(counts))
        inside = slice(highest, until[highest])
        peak = float(np.median(sorted_differences[inside]))
        counts = np.where(np.abs(sorted_differences - peak) < 2 * TOGETHER_NS, 0, counts)
        counts[highest] = 0
        if np.unique(who[inside]).size >= least:
            peaks.append(peak)
    return peaks


def near_pairs(base: Calls, other: Calls, line: Floats, reach: float) -> tuple[Ints, Ints]:
    """Calls that are each other's nearest of their kind, on clocks that differ by `line`."""
    moved = base.end + np.polyval(line, base.end - base.end[0])
    mine, theirs = _nearest(base.key, moved, other.key, other.end)
    near = np.abs(other.end[theirs] - moved[mine]) < reach
    return mine[near], theirs[near]


def refined_pairs(base: Calls, other: Calls, pairs: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs whose ends lie together on clocks whose offset may change slowly.

    The line through the pairs so far replaces the offset.
    """
    for reach in (3 * TOGETHER_NS, TOGETHER_NS):
        mine, theirs = pairs
        if mine.size < 2:
            break
        line = clock_line(base.end[mine] - base.end[0], other.end[theirs] - base.end[mine])
        pairs = near_pairs(base, other, line, reach)
    return pairs


def clock_line(x: Floats, y: Floats) -> Floats:
    """A line through most points, as polynomial coefficients."""
    line = np.array([0.0, float(np.median(y))])
    before: NDArray[np.bool_] | None = None
    for _ in range(4):
        apart = np.abs(y - np.polyval(line, x))
        keep = apart <= max(3.0 * float(np.median(apart)), 1.0)
        if before is not None and np.array_equal(keep, before):
            break
        if keep.sum() < 8 or np.ptp(x[keep]) < 1e6:
            return np.array([0.0, float(np.median(y[keep]))])
        line, before = _least_squares(x[keep], y[keep]), keep
    return line


def _least_squares(x: Floats, y: Floats) -> Floats:
    """The line with the least squares, as polynomial coefficients."""
    from_middle, height = x - x.mean(), y.mean()
    slope = float((from_middle * (y - height)).sum() / (from_middle**2).sum())
    return np.array([slope, float(height - slope * x.mean())])


def _nearest(keys: Ints, ends: Floats, other_keys: Ints, other_ends: Floats) -> tuple[Ints, Ints]:
    """Pairs of equal key that are each other's nearest."""
    mine, theirs = [], []
    for key in np.intersect1d(keys, other_keys):
        a, b = np.flatnonzero(keys == key), np.flatnonzero(other_keys == key)
        to_b, to_a = _closest(ends[a], other_ends[b]), _closest(other_ends[b], ends[a])
        mutual = to_a[to_b] == np.arange(a.size)
        mine.append(a[mutual])
        theirs.append(b[to_b[mutual]])
    if not mine:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = np.concatenate(mine), np.concatenate(theirs)
    order = np.argsort(pairs[0], kind="stable")
    return pairs[0][order], pairs[1][order]


def _closest(points: Floats, among: Floats) -> Ints:
    """For each point the position of the closest of `among`; both ascend."""
    right = np.clip(np.searchsorted(among, points), 1, max(1, among.size - 1))
    left = right - 1
    right = np.minimum(right, among.size - 1)
    nearer = np.abs(points - among[left]) <= np.abs(among[right] - points)
    return np.where(nearer, left, right).astype(np.int64)
