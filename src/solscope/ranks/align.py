"""The calls of two ranks, paired: by sequence number, by their ends, else by their order."""

from __future__ import annotations

from collections import Counter

import numpy as np

from solscope.ranks.agreement import clocks_apart, closeness, evidence, likelihood, usual_difference
from solscope.ranks.offsets import TOGETHER_NS, Calls, Ints, near_pairs, offsets, refined_pairs

ODD = 0.02
"""Share of pairs that need not overlap: rounding, and clocks that jump."""
PROBE, PROBES, RIVALS = 192, 3, 32
"""Whether ranks have the same calls is tried in other orders too, at which stretches of so many
calls, in so many places, fit best: so many of each."""
FAR = 4096
"""Places that are so many calls away are not looked at."""
MOST_SHIFTS = 2000
SURE = 4.0
"""By how many standard deviations more calls end together than would by chance."""
MOSTLY = 0.9
"""Share of the messages that must be matched by their ends; else they are matched in turn."""


def align(base: Calls, other: Calls) -> tuple[Ints, Ints, list[str]]:
    """Pairs of positions that are the same collective, and how each pair was found."""
    if (base.sequence >= 0).all() and (other.sequence >= 0).all():
        return _by_sequence(base, other)
    if _clearly_same(base, other):
        everything = np.arange(base.row.size)
        return everything, everything, ["end"] * everything.size
    nothing = np.empty(0, np.int64)
    best, mine, theirs = -np.inf, nothing, nothing
    tried: set[tuple[bytes, bytes]] = set()
    for offset in offsets(base, other):
        near = near_pairs(base, other, np.array([0.0, offset]), 20 * TOGETHER_NS)
        # Offsets that lie close together give the same pairs, and all that follows from them.
        if (same := (near[0].tobytes(), near[1].tobytes())) in tried:
            continue
        tried.add(same)
        pairs = refined_pairs(base, other, near)
        if evidence(base, other, pairs) < SURE:
            continue
        likely = likelihood(base, other, pairs)
        if likely > best:
            best, mine, theirs = likely, pairs[0], pairs[1]
    if not mine.size:
        pairs = _in_order(base, other)
        return *pairs, ["order"] * pairs[0].size
    more = _by_order(base, other, mine, theirs)
    by = ["end"] * mine.size + ["order"] * len(more)
    mine = np.concatenate((mine, np.array([a for a, _ in more], np.int64)))
    theirs = np.concatenate((theirs, np.array([b for _, b in more], np.int64)))
    order = np.argsort(mine, kind="stable")
    return mine[order], theirs[order], [by[index] for index in order]


def _clearly_same(base: Calls, other: Calls) -> bool:
    """Whether two ranks have the same calls, and no other order of them is more likely.

    This decides nearly all pairs of ranks without a search for offsets: what is compared is what
    `likelihood` compares, for the orders in which some stretch of calls fits best.
    """
    size = base.row.size
    if size < PROBE or size != other.row.size or not np.array_equal(base.key, other.key):
        return False
    usual = usual_difference(base)
    plain = _shifted(base, other, 0, usual)
    if any(_shifted(base, other, shift, usual) >= plain for shift in _rivals(base, other)):
        return False
    offset = np.array([0.0, float(np.median(other.end - base.end))])
    pairs = refined_pairs(base, other, near_pairs(base, other, offset, 20 * TOGETHER_NS))
    in_order = np.arange(size)
    same = np.array_equal(pairs[0], in_order) and np.array_equal(pairs[1], in_order)
    return same and evidence(base, other, pairs) >= SURE


def _shifted(base: Calls, other: Calls, shift: int, usual: float) -> float:
    """How likely it is that the calls of the other rank are those so many places before."""
    mine = base.end[max(0, -shift) : base.end.size - max(0, shift)]
    theirs = other.end[max(0, shift) : other.end.size - max(0, -shift)]
    offset = float(np.median(theirs - mine))
    apart = float(np.median(np.abs(np.diff(mine) - np.diff(theirs))))
    return mine.size * closeness(apart, usual) - clocks_apart(offset)


def _rivals(base: Calls, other: Calls) -> set[int]:
    """Shifts at which a stretch of calls fits best, the plain order left out."""
    gaps, theirs = np.diff(base.end), np.diff(other.end)
    length = min(PROBE, gaps.size // 2)
    places = np.lib.stride_tricks.sliding_window_view(theirs, length)
    shifts: set[int] = set()
    for start in np.linspace(0, gaps.size - length, PROBES).astype(int).tolist():
        first = max(0, start - FAR)
        near = places[first : start + FAR]
        apart = np.median(np.abs(near - gaps[start : start + length]), axis=1)
        best = np.argsort(apart, kind="stable")[:RIVALS]
        shifts |= {int(peak) + first - start for peak in best}
    # Far shifts leave few calls to compare.
    return {shift for shift in shifts if shift and abs(shift) < gaps.size // 2}


def align_peers(base: Calls, other: Calls) -> tuple[Ints, Ints, list[str]]:
    """Sends and receives of two ranks: by their ends, else in turn.

    A send may end long before its receive, which waits for a stage to be free: their ends need not
    lie together. But messages of one direction do not overtake one another.
    """
    aligned = align(base, other)
    if aligned[0].size >= MOSTLY * min(base.row.size, other.row.size):
        return aligned
    mine, theirs = [], []
    for key in np.intersect1d(base.key, other.key):
        a, b = np.flatnonzero(base.key == key), np.flatnonzero(other.key == key)
        skip_a, skip_b = _first_in_common(base, a, other, b)
        count = min(a.size - skip_a, b.size - skip_b)
        mine.append(a[skip_a : skip_a + count])
        theirs.append(b[skip_b : skip_b + count])
    pairs = np.concatenate(mine), np.concatenate(theirs)
    order = np.argsort(pairs[0], kind="stable")
    return pairs[0][order], pairs[1][order], ["order"] * order.size


def _first_in_common(base: Calls, a: Ints, other: Calls, b: Ints) -> tuple[int, int]:
    """How many messages only one of the two ranks recorded at the beginning.

    As many on both sides are the same messages. Else the recordings overlap in part, and by the
    recorded clocks each message begins closest to the one that it is.
    """
    if a.size == b.size:
        return 0, 0
    few, many = (a, b) if a.size < b.size else (b, a)
    few_end, many_end = (base.end[a], other.end[b]) if few is a else (other.end[b], base.end[a])
    apart = [
        float(np.median(np.abs(many_end[skip : skip + few.size] - few_end)))
        for skip in range(min(many.size - few.size, MOST_SHIFTS) + 1)
    ]
    skip = int(np.argmin(apart))
    return (0, skip) if few is a else (skip, 0)


def _by_sequence(base: Calls, other: Calls) -> tuple[Ints, Ints, list[str]]:
    places, theirs_at = _numbered(base), _numbered(other)
    pairs = [(places[call], place) for call, place in theirs_at.items() if call in places]
    mine = np.array([a for a, _ in pairs], np.int64)
    theirs = np.array([b for _, b in pairs], np.int64)
    return mine, theirs, ["sequence"] * len(pairs)


def _numbered(calls: Calls) -> dict[tuple[int, int], int]:
    """Positions of calls by sequence number and key; a number that occurs twice is ambiguous."""
    named = list(zip(calls.sequence.tolist(), calls.key.tolist(), strict=True))
    times = Counter(named)
    return {call: place for place, call in enumerate(named) if times[call] == 1}


def _in_order(base: Calls, other: Calls) -> tuple[Ints, Ints]:
    """Calls paired by their order, for ranks whose ends lie apart: uneven all-to-alls, say.

    Every rank is inside a collective when its last one enters, so the two calls of a pair overlap
    on a common clock. An order that allows one offset at which they do is taken, when it is the
    only one; with as many calls on both sides, only the plain order is tried.
    """
    few, many = sorted((base, other), key=lambda calls: calls.row.size)
    size = few.row.size
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    if size < 3 or many.row.size - size > MOST_SHIFTS:
        return nothing
    shifts = []
    for shift in range(many.row.size - size + 1):
        stretch = slice(shift, shift + size)
        if (few.key == many.key[stretch]).all() and _may_overlap(few, many, stretch):
            shifts.append(shift)
    if len(shifts) != 1:
        return nothing
    here, there = np.arange(size), np.arange(size) + shifts[0]
    return (here, there) if few is base else (there, here)


def _may_overlap(few: Calls, many: Calls, stretch: slice) -> bool:
    """Whether at some offset nearly all pairs overlap."""
    low = np.sort(many.start[stretch] - few.end)
    high = np.sort(many.end[stretch] - few.start)
    spare = int(ODD * low.size)
    return bool(low[low.size - 1 - spare] <= high[spare])


def _by_order(base: Calls, other: Calls, mine: Ints, theirs: Ints) -> list[tuple[int, int]]:
    """Calls between two pairs, before the first or after the last, that are equal on both sides."""
    pairs = []
    a = [-1, *mine.tolist(), base.row.size]
    b = [-1, *theirs.tolist(), other.row.size]
    for index in range(len(a) - 1):
        here, there = range(a[index] + 1, a[index + 1]), range(b[index] + 1, b[index + 1])
        if len(here) == len(there) and len(here):
            same = (base.key[here.start : here.stop] == other.key[there.start : there.stop]).all()
            pairs += list(zip(here, there, strict=True)) if same else []
    return pairs
