"""Which calls of different ranks are the same collective.

Ranks agree on the order of the collectives of a group, but not on where a recording begins and
ends, and a rank may have a call more or less. What identifies a call is its sequence number where
one is recorded. Where none is, it is its end: no rank can leave a collective before all have
entered it, so the ends lie together on a clock that all share. The clocks of two ranks differ by
an offset that is not known, and it is found first: of all differences between ends of calls of the
same kind and size, the true offset is the one that most pairs agree on. Calls whose nearest
neighbors on that clock are each other are the same; between two such pairs, calls of equal kind and
size are paired by their order.

What no other rank has, or what is ambiguous, stays unmatched and is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.kinds import EVEN, POINT_TO_POINT, SYNCHRONIZING
from solscope.run import CALL_SCHEMA, Rank, Run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOGETHER_NS = 100_000.0
"""Ends that lie closer than this may be those of one collective; NCCL's do, over sockets too."""
WINDOWS = ((96, 5), (12, 9))
"""Stretches of the reference from which an offset is looked for: how many calls, how many of them.
Short ones fit recordings that overlap in part."""
LIKE = 0.8
"""Share of the calls of a stretch that must be of the same kind and size on both ranks."""
LEAST_SHARE = 0.5
"""Two ranks are matched when this share of the calls that both recorded end together."""
TIGHT = 0.1
"""Ends are together when they are closer than this share of the way to the next call."""
ODD = 0.02
"""Share of pairs that need not overlap: rounding, and clocks that jump."""
PROBE, PROBES, RIVALS = 192, 3, 32
"""Whether ranks have the same calls is tried in other orders too, at which stretches of so many
calls, in so many places, fit best: so many of each."""
FAR = 4096
"""Places that are so many calls away are not looked at."""
MOST_SHIFTS = 2000
LEAST_NS = 100.0
"""Shorter differences are noise."""
LOST = 4.0
"""A call that both ranks recorded finds no partner with a chance of 1 in exp(4), about 2 %."""
LIKELY_NS = 1e6
"""Recorded clocks of hosts that are kept in time differ by about this."""
SURE = 4.0
"""By how many standard deviations more calls end together than would by chance."""


SPLIT = 0.5
"""Calls whose ends are closer than this share of the usual distance may be one collective."""
PEERS = "peers "
"""What the group of a send and its receive begins with."""
MOSTLY = 0.9
"""Share of the messages that must be matched by their ends; else they are matched in turn."""


@dataclass(frozen=True)
class Matched:
    """The collectives of a run: one row per collective, one column per rank."""

    ranks: tuple[int, ...]
    table: pl.DataFrame
    """`kind`, `group`, `bytes`, `step`, `layer`, `by`: what all ranks agree on; `by` is how it was
    matched: `sequence`, `end` or `order`."""
    index: Ints
    """Row of the collective in each rank's table of calls; -1 where the rank has none."""
    unmatched: dict[int, int]
    """Calls of each rank that no other rank has."""
    unrelated: tuple[int, ...]
    """Ranks whose collectives end together with those of no other rank."""


@dataclass(frozen=True)
class _Calls:
    """Calls of one rank in one group, in order of their ends."""

    row: Ints
    key: NDArray[np.int64]
    start: Floats
    end: Floats
    sequence: Ints
    """-1 where none is recorded."""


def match(run: Run) -> Matched:
    """Match the collectives of all ranks, group by group."""
    tables = [_keyed(rank) for rank in run.ranks]
    names = {key for table in tables for key in table["key"].unique().to_list()}
    codes = {name: code for code, name in enumerate(sorted(names))}
    tables = [
        table.with_columns(pl.col("key").replace_strict(codes, return_dtype=pl.Int64))
        for table in tables
    ]
    zero = min((int(t["end_ns"].to_numpy().min()) for t in tables if t.height), default=0)
    groups = sorted({name for table in tables for name in table["in"].unique().to_list()})
    parts, how, related = [], [], set()
    for group in groups:
        members = {
            at: calls
            for at, table in enumerate(tables)
            if (calls := _calls_of(table, group, zero)).row.size
        }
        index, by, pairs = _match_group(members, len(tables), group.startswith(PEERS))
        parts.append(index)
        how += by
        related |= pairs
    index = np.concatenate(parts) if parts else np.full((0, len(tables)), -1, np.int64)
    whole = (index >= 0).sum(1) > 1
    how = [by for by, keep in zip(how, whole, strict=True) if keep]
    index = index[whole]
    order = np.argsort(_first_start(run.ranks, index), kind="stable")
    index = index[order]
    table = _describe(run.ranks, index, [how[at] for at in order])
    numbers = tuple(rank.rank for rank in run.ranks)
    unmatched = {
        rank.rank: rank.calls.height - int((index[:, at] >= 0).sum())
        for at, rank in enumerate(run.ranks)
    }
    alone = tuple(
        rank.rank for at, rank in enumerate(run.ranks) if at not in related and rank.calls.height
    )
    return Matched(numbers, table, index, unmatched, alone)


def _keyed(rank: Rank) -> pl.DataFrame:
    """Calls with the group that they are matched in (`in`) and what must be equal (`key`)."""
    even = pl.col("kind").is_in(list(EVEN))
    low = pl.min_horizontal(pl.col("peer"), pl.lit(rank.rank))
    high = pl.max_horizontal(pl.col("peer"), pl.lit(rank.rank))
    peers = pl.concat_str(pl.lit(PEERS), low, pl.lit(","), high)
    alone = pl.col("kind").is_in(list(POINT_TO_POINT)) & pl.col("peer").is_not_null()
    # A send and its receive are the two sides of one transfer, and have a direction.
    sender = pl.when(pl.col("kind") == "send").then(pl.lit(rank.rank)).otherwise("peer")
    key = pl.concat_str(
        pl.when(alone).then(pl.concat_str(pl.lit("from "), sender)).otherwise("kind"),
        pl.lit(" "),
        pl.when(even).then(pl.col("bytes").cast(pl.String)).otherwise(pl.lit("")).fill_null(""),
    )
    return rank.calls.with_row_index("row").with_columns(
        pl.when(alone).then(peers).otherwise(pl.col("group").fill_null("")).alias("in"),
        key.alias("key"),
    )


def _calls_of(table: pl.DataFrame, group: str, zero: int) -> _Calls:
    calls = table.filter(pl.col("in") == group).sort("end_ns", maintain_order=True)
    # Differences of Unix times in ns need more digits than a float has.
    starts, ends = (calls[name].to_numpy() - zero for name in ("start_ns", "end_ns"))
    return _Calls(
        calls["row"].cast(pl.Int64).to_numpy(),
        calls["key"].to_numpy(),
        starts.astype(np.float64),
        ends.astype(np.float64),
        calls["sequence"].fill_null(-1).to_numpy(),
    )


def _match_group(
    members: dict[int, _Calls], width: int, peers: bool
) -> tuple[Ints, list[str], set[int]]:
    """Rows of one group's collectives by rank, how each was matched, and which ranks were."""
    if not members:
        return np.full((0, width), -1, np.int64), [], set()
    reference = max(members, key=lambda at: (members[at].row.size, -at))
    base = members[reference]
    index = np.full((base.row.size, width), -1, np.int64)
    index[:, reference] = base.row
    how = np.full(base.row.size, "order", dtype=object)
    related: set[int] = set()
    for at, calls in members.items():
        if at == reference:
            continue
        mine, theirs, by = _align_peers(base, calls) if peers else _align(base, calls)
        index[mine, at] = calls.row[theirs]
        if mine.size:
            related |= {reference, at}
        how[mine] = np.where(how[mine] == "order", by, how[mine])
    _join_split(index, base, reference)
    return index, list(how), related


def _join_split(index: Ints, base: _Calls, reference: int) -> None:
    """Give neighbors that share one collective to the one that more ranks, or all, agree on.

    With a call too many on the reference, some ranks may find the one and some the other. Calls are
    such neighbors when they end close together and no rank has both.
    """
    gaps = np.diff(base.end)
    if not gaps.size:
        return
    usual = float(np.median(gaps))
    for at in np.flatnonzero((gaps < SPLIT * usual) & (base.key[1:] == base.key[:-1])):
        pair = index[at : at + 2] >= 0
        pair[:, reference] = False
        if not pair.any(1).all() or pair.all(0).any():
            continue
        to = at if pair[0].sum() >= pair[1].sum() else at + 1
        other = 2 * at + 1 - to
        index[to] = np.where(pair[other - at], index[other], index[to])
        index[other] = np.where(pair[other - at], -1, index[other])


def _align(base: _Calls, other: _Calls) -> tuple[Ints, Ints, list[str]]:
    """Pairs of positions that are the same collective, and how each pair was found."""
    if (base.sequence >= 0).all() and (other.sequence >= 0).all():
        return _by_sequence(base, other)
    if _clearly_same(base, other):
        everything = np.arange(base.row.size)
        return everything, everything, ["end"] * everything.size
    nothing = np.empty(0, np.int64)
    best, mine, theirs = -np.inf, nothing, nothing
    tried: set[tuple[bytes, bytes]] = set()
    for offset in _offsets(base, other):
        near = _near(base, other, np.array([0.0, offset]), 20 * TOGETHER_NS)
        # Offsets that lie close together give the same pairs, and all that follows from them.
        if (same := (near[0].tobytes(), near[1].tobytes())) in tried:
            continue
        tried.add(same)
        pairs = _refined(base, other, near)
        if _evidence(base, other, pairs) < SURE:
            continue
        likely = _likelihood(base, other, pairs)
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
    return mine[order], theirs[order], [by[at] for at in order]


def _clearly_same(base: _Calls, other: _Calls) -> bool:
    """Whether two ranks have the same calls, and no other order of them is more likely.

    This decides nearly all pairs of ranks without a search for offsets: what is compared is what
    `_likelihood` compares, for the orders in which some stretch of calls fits best.
    """
    size = base.row.size
    if size < PROBE or size != other.row.size or not np.array_equal(base.key, other.key):
        return False
    usual = _usual(base)
    plain = _shifted(base, other, 0, usual)
    if any(_shifted(base, other, shift, usual) >= plain for shift in _rivals(base, other)):
        return False
    offset = np.array([0.0, float(np.median(other.end - base.end))])
    pairs = _refined(base, other, _near(base, other, offset, 20 * TOGETHER_NS))
    in_order = np.arange(size)
    same = np.array_equal(pairs[0], in_order) and np.array_equal(pairs[1], in_order)
    return same and _evidence(base, other, pairs) >= SURE


def _shifted(base: _Calls, other: _Calls, shift: int, usual: float) -> float:
    """How likely it is that the calls of the other rank are those so many places before."""
    mine = base.end[max(0, -shift) : base.end.size - max(0, shift)]
    theirs = other.end[max(0, shift) : other.end.size - max(0, -shift)]
    offset = float(np.median(theirs - mine))
    apart = float(np.median(np.abs(np.diff(mine) - np.diff(theirs))))
    return mine.size * _closer(apart, usual) - _far_apart(offset)


def _rivals(base: _Calls, other: _Calls) -> set[int]:
    """Shifts at which a stretch of calls fits best, the plain order left out."""
    gaps, theirs = np.diff(base.end), np.diff(other.end)
    length = min(PROBE, gaps.size // 2)
    places = np.lib.stride_tricks.sliding_window_view(theirs, length)
    found: set[int] = set()
    for start in np.linspace(0, gaps.size - length, PROBES).astype(int).tolist():
        first = max(0, start - FAR)
        near = places[first : start + FAR]
        apart = np.median(np.abs(near - gaps[start : start + length]), axis=1)
        best = np.argsort(apart, kind="stable")[:RIVALS]
        found |= {int(at) + first - start for at in best}
    # Far shifts leave few calls to compare.
    return {shift for shift in found if shift and abs(shift) < gaps.size // 2}


def _align_peers(base: _Calls, other: _Calls) -> tuple[Ints, Ints, list[str]]:
    """Sends and receives of two ranks: by their ends, else in turn.

    A send may end long before its receive, which waits for a stage to be free: their ends need not
    lie together. But messages of one direction do not overtake one another.
    """
    found = _align(base, other)
    if found[0].size >= MOSTLY * min(base.row.size, other.row.size):
        return found
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


def _first_in_common(base: _Calls, a: Ints, other: _Calls, b: Ints) -> tuple[int, int]:
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


def _by_sequence(base: _Calls, other: _Calls) -> tuple[Ints, Ints, list[str]]:
    places, theirs_at = _numbered(base), _numbered(other)
    pairs = [(places[call], at) for call, at in theirs_at.items() if call in places]
    mine = np.array([a for a, _ in pairs], np.int64)
    theirs = np.array([b for _, b in pairs], np.int64)
    return mine, theirs, ["sequence"] * len(pairs)


def _numbered(calls: _Calls) -> dict[tuple[int, int], int]:
    """Positions of calls by sequence number and key; a number that occurs twice is ambiguous."""
    named = list(zip(calls.sequence.tolist(), calls.key.tolist(), strict=True))
    times = Counter(named)
    return {call: at for at, call in enumerate(named) if times[call] == 1}


def _offsets(base: _Calls, other: _Calls) -> list[float]:
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


def _fits(base: _Calls, other: _Calls, stretch: slice, most: int = 2) -> list[float]:
    """Offsets at which the times between calls of a stretch are most alike on both ranks."""
    ends, keys = base.end[stretch], base.key[stretch]
    if ends.size < 4 or other.end.size < ends.size:
        return []
    theirs = np.lib.stride_tricks.sliding_window_view(other.end, ends.size)
    their_keys = np.lib.stride_tricks.sliding_window_view(other.key, ends.size)
    apart = np.median(np.abs(np.diff(theirs, axis=1) - np.diff(ends)), axis=1)
    apart = np.where((their_keys == keys).mean(1) >= LIKE, apart, np.inf)
    best = [at for at in np.argsort(apart, kind="stable")[:most] if np.isfinite(apart[at])]
    return [float(np.median(theirs[at] - ends)) for at in best]


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
        at = int(np.argmax(counts))
        inside = slice(at, until[at])
        peak = float(np.median(sorted_differences[inside]))
        counts = np.where(np.abs(sorted_differences - peak) < 2 * TOGETHER_NS, 0, counts)
        counts[at] = 0
        if np.unique(who[inside]).size >= least:
            peaks.append(peak)
    return peaks


def _near(base: _Calls, other: _Calls, line: Floats, reach: float) -> tuple[Ints, Ints]:
    """Calls that are each other's nearest of their kind, on clocks that differ by `line`."""
    moved = base.end + np.polyval(line, base.end - base.end[0])
    mine, theirs = _nearest(base.key, moved, other.key, other.end)
    near = np.abs(other.end[theirs] - moved[mine]) < reach
    return mine[near], theirs[near]


def _refined(base: _Calls, other: _Calls, pairs: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs whose ends lie together on clocks whose offset may change slowly.

    The line through the pairs found so far replaces the offset.
    """
    for reach in (3 * TOGETHER_NS, TOGETHER_NS):
        mine, theirs = pairs
        if mine.size < 2:
            break
        line = _line(base.end[mine] - base.end[0], other.end[theirs] - base.end[mine])
        pairs = _near(base, other, line, reach)
    return pairs


def _line(x: Floats, y: Floats) -> Floats:
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
    found = np.concatenate(mine), np.concatenate(theirs)
    order = np.argsort(found[0], kind="stable")
    return found[0][order], found[1][order]


def _closest(points: Floats, among: Floats) -> Ints:
    """For each point the position of the closest of `among`; both ascend."""
    right = np.clip(np.searchsorted(among, points), 1, max(1, among.size - 1))
    left = right - 1
    right = np.minimum(right, among.size - 1)
    nearer = np.abs(points - among[left]) <= np.abs(among[right] - points)
    return np.where(nearer, left, right).astype(np.int64)


def _in_order(base: _Calls, other: _Calls) -> tuple[Ints, Ints]:
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


def _may_overlap(few: _Calls, many: _Calls, stretch: slice) -> bool:
    """Whether at some offset nearly all pairs overlap."""
    low = np.sort(many.start[stretch] - few.end)
    high = np.sort(many.end[stretch] - few.start)
    spare = int(ODD * low.size)
    return bool(low[low.size - 1 - spare] <= high[spare])


def _evidence(base: _Calls, other: _Calls, pairs: tuple[Ints, Ints]) -> float:
    """How much the ends agree beyond chance, in standard deviations; 0 when most do not.

    At a wrong offset, an end lies anywhere between two of the other rank: close to one of them,
    on either side, with a chance of twice `TIGHT`.
    """
    mine, theirs = pairs
    if mine.size < 3:
        return 0.0
    x, y = base.end[mine], other.end[theirs] - base.end[mine]
    apart = np.abs(y - np.polyval(_line(x - x[0], y), x - x[0]))
    spacing = float(np.median(np.diff(base.end))) if base.end.size > 1 else TOGETHER_NS
    together = int((apart <= TIGHT * spacing).sum())
    shared = _shared(base, other, pairs)
    if together < LEAST_SHARE * shared:
        return 0.0
    chance = 2 * TIGHT
    return float((together - chance * shared) / np.sqrt(chance * (1 - chance) * shared))


def _likelihood(base: _Calls, other: _Calls, pairs: tuple[Ints, Ints]) -> float:
    """How likely pairs are, to choose between offsets at which calls end together.

    In a regular program that is so at several: one call or one step further, ends fit again. But
    no call takes exactly as long as another, so what counts is how much closer the times between
    calls are on both ranks than those of different calls of one rank. Calls that both recorded and
    that find no partner speak against an offset, and so do recorded clocks that are far apart.
    """
    mine, theirs = pairs
    apart = float(np.median(np.abs(np.diff(base.end[mine]) - np.diff(other.end[theirs]))))
    offset = float(np.median(other.end[theirs] - base.end[mine]))
    lost = _shared(base, other, pairs) - mine.size
    return mine.size * _closer(apart, _usual(base)) - LOST * lost - _far_apart(offset)


def _usual(base: _Calls) -> float:
    """How much the times between different calls of a rank differ, in the middle."""
    gaps = np.diff(base.end)
    return float(np.median(np.abs(gaps - np.random.default_rng(7).permutation(gaps))))


def _closer(apart: float, usual: float) -> float:
    """How much closer times between calls are than those of different calls, as a logarithm."""
    return float(np.log(max(usual, LEAST_NS) / max(min(apart, usual), LEAST_NS)))


def _far_apart(offset: float) -> float:
    """What recorded clocks that differ so much weigh against an offset."""
    return float(2 * np.log1p(abs(offset) / LIKELY_NS))


def _shared(base: _Calls, other: _Calls, pairs: tuple[Ints, Ints]) -> float:
    """How many calls both recorded, were the pairs right."""
    mine, theirs = pairs
    before = min(mine[0], theirs[0])
    after = min(base.row.size - 1 - mine[-1], other.row.size - 1 - theirs[-1])
    return float(min(np.ptp(mine), np.ptp(theirs)) + 1 + before + after)


def _by_order(base: _Calls, other: _Calls, mine: Ints, theirs: Ints) -> list[tuple[int, int]]:
    """Calls between two pairs, before the first or after the last, that are equal on both sides."""
    pairs = []
    a = [-1, *mine.tolist(), base.row.size]
    b = [-1, *theirs.tolist(), other.row.size]
    for at in range(len(a) - 1):
        here, there = range(a[at] + 1, a[at + 1]), range(b[at] + 1, b[at + 1])
        if len(here) == len(there) and len(here):
            same = (base.key[here.start : here.stop] == other.key[there.start : there.stop]).all()
            pairs += list(zip(here, there, strict=True)) if same else []
    return pairs


def _first_start(ranks: tuple[Rank, ...], index: Ints) -> Floats:
    """When each collective began on the first rank that has it."""
    first = np.full(index.shape[0], np.inf)
    for at, rank in enumerate(ranks):
        has_call = index[:, at] >= 0
        if has_call.any():
            start = rank.calls["start_ns"].to_numpy()[index[has_call, at]]
            first[has_call] = np.where(np.isinf(first[has_call]), start, first[has_call])
    return first


def step_shifts(ranks: tuple[Rank, ...], index: Ints) -> list[int]:
    """What to add to each rank's step numbers to get those of the rank with most collectives."""
    if not ranks:
        return []
    main = int(np.argmax((index >= 0).sum(0)))
    shifts = []
    for at, rank in enumerate(ranks):
        both = (index[:, at] >= 0) & (index[:, main] >= 0)
        mine = ranks[main].calls["step"].gather(index[both, main])
        theirs = rank.calls["step"].gather(index[both, at])
        apart = (mine - theirs).drop_nulls()
        shifts.append(0 if apart.is_empty() else int(apart.mode().min()))  # type: ignore[arg-type]
    return shifts


_FACTS = ("kind", "group", "step", "layer")


def _describe(ranks: tuple[Rank, ...], index: Ints, how: list[str]) -> pl.DataFrame:
    """What a collective is; bytes are the mean of all ranks.

    Steps are numbered as by the rank with most collectives: others may have begun later.
    """
    count = index.shape[0]
    total, known = np.zeros(count), np.zeros(count)
    order = sorted(range(len(ranks)), key=lambda at: int((index[:, at] >= 0).sum()))
    shifts = step_shifts(ranks, index)
    facts = pl.DataFrame(schema={name: CALL_SCHEMA[name] for name in _FACTS}).clear(count)
    for at in order:
        has_call = index[:, at] >= 0
        rows = ranks[at].calls.with_columns(pl.col("step") + shifts[at])
        mine = rows[pl.Series(index[:, at]).set(pl.Series(~has_call), None)]
        here = pl.Series(has_call)
        facts = pl.DataFrame([mine[name].zip_with(here, facts[name]) for name in _FACTS])
        size = mine["bytes"].cast(pl.Float64).to_numpy()
        sized = has_call & ~np.isnan(size)
        total[sized] += size[sized]
        known[sized] += 1
    sizes = [int(t / k) if k else None for t, k in zip(total, known, strict=True)]
    kinds = ["send_receive" if kind in POINT_TO_POINT else kind for kind in facts["kind"]]
    return pl.DataFrame(
        {
            "kind": pl.Series(kinds, dtype=pl.String),
            "group": facts["group"],
            "bytes": pl.Series(sizes, dtype=pl.Int64),
            "step": facts["step"],
            "layer": facts["layer"],
            "by": pl.Series(how, dtype=pl.String),
            "synchronizing": pl.Series([k in SYNCHRONIZING for k in kinds], dtype=pl.Boolean),
        }
    )
