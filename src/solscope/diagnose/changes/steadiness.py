"""How the step time of one run moves: levels, a slope, a period, rare slow steps.

Steps are taken as multiples of the typical step of their phase, so that a prefill is not a slow
step. Four things are looked for, each with a test that keeps what neighboring steps have in common
(blocks of them are shuffled, not single steps):

- *change points*: step times differ before and after (Pettitt's rank test, by
  permutation; repeated on both parts, then each is placed again between its neighbors);
- *drift*: the slope of Theil and Sen over the run, with its 99 % interval from resampled blocks;
- *slow steps*: much longer than the typical step of their level, as between two runs;
- a *period*: slow steps at one distance, better than steps placed at random.

Levels and lines also have to be worth their parameters beside noise that remembers
(`selection.py`). A run that goes back and forth between two levels has neither change points nor
outliers that describe it: `alternation.py` finds its slow steps. What none of this describes may
still move: `uneven` says so.

Worked example: 60 steps of 4 ms, each after step 40 of 6 ms. The levels are 4 and 6 ms, a change
point is at step 40, nothing is slow within its level, and a line fits worse than two levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from solscope.diagnose.changes.alternation import (
    Alternation,
    Bools,
    alternation,
    descriptions,
)
from solscope.diagnose.changes.selection import SAVED, Description, length, shortest
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.intervals import Int64s
from solscope.resample import Floats, block_length, generator

SHUFFLES = 999
SLOPES = 300
"""Resampled runs that give the interval of a slope."""
KNOWN = 0.75
"""Share of the steps on a slow level that may be slow steps already, for the level to be news."""
CELLS = 1_000_000
"""Shuffled steps held in memory at a time."""
LONGEST = 64
"""Longest period looked for, in steps."""
AT_LEAST = 4
"""Slow steps that make a period: three have two distances, which are equal by one coincidence."""
MOST = 150
"""Values that a slope is fitted to."""
SINGLE = 0.3
"""A step that is further than this from levels and line is odd, if the others are nearer."""
PLACES = 20
"""Rounds after which a change point stays where it is."""
LEVELS = 4
"""Change points at most: the search stops there, and what then still moves is `uneven`."""


@dataclass(frozen=True)
class Level:
    """Consecutive steps that take about as long."""

    first: int
    """Position of its first step."""
    size: int
    typical: float
    """Median, in typical steps of the run."""


@dataclass(frozen=True)
class Change:
    """A change point."""

    start: int
    """Position of the first step after it."""
    ratio: float
    """Typical step of the level after it over that of the level before it."""
    p: float
    """Of Pettitt's test."""


class Drift(msgspec.Struct, frozen=True):
    """Steps that get slower (or faster) over the whole run."""

    ratio: float
    """The last step over the first, on the line that fits best."""
    low: float
    """99 % interval."""
    high: float


@dataclass(frozen=True)
class Spacing:
    """Slow steps at one distance."""

    steps: int
    regular: float
    """Overlap of the slow steps with all steps at this distance, 0 to 1."""
    p: float


@dataclass(frozen=True)
class Movement:
    """How one run moves."""

    levels: list[Level]
    changes: list[Change]
    slope: Drift | None
    """Null where it is not significant, too small, or levels fit better."""
    slow: Int64s
    """Positions of slow steps."""
    slow_share: float
    """Their time beyond the typical step, as part of all time."""
    rest_share: float
    """The same without the slowest step: one accident does not make a pattern."""
    spacing: Spacing | None
    uneven: bool
    """True when steps differ by more than levels and slope explain: no such run is steady."""


class _Steps(NamedTuple):
    times: Floats
    pace: Floats
    """The same, with rare steps between their neighbors."""
    seen: Bools
    """False for steps of which only the place is known."""


def movement(
    times: Floats,
    limits: Thresholds = THRESHOLDS,
    rare: Bools | None = None,
    unseen: Bools | None = None,
) -> Movement:
    """Look for all of it in the times of steps, in order, as multiples of the typical step.

    `rare` steps do other work, and what slows the others down slows them by another factor: they
    may be slow, but levels, lines and periods are those of the other steps. Of `unseen` steps
    nothing is known but their place, which a period needs.
    """
    seen = np.ones(times.size, dtype=np.bool_) if unseen is None else ~unseen
    if not seen.all():
        times = _bridged(times, ~seen)
    pace = times if rare is None else _bridged(times, rare)
    steps = _Steps(times, pace, seen)
    changes = _changes(pace, limits)
    slope = _slope(pace, limits)
    between = alternation(pace, limits, rare)
    best = _described(pace, changes, slope, between)
    if best != "levels":
        changes = []
    if best != "line":
        slope = None
    usual = _usual(pace, _levels(pace, changes), slope)
    slow = _slow(times / usual - 1, limits)
    if between is None or best in ("levels", "line") or _is_known(between, slow):
        return _moved(steps, changes, slope, usual, slow, limits)
    return _two_levels(steps, between, limits)


def _bridged(times: Floats, left_out: Bools) -> Floats:
    """The times, with those of steps left out between their neighbors'."""
    places = np.arange(times.size)
    others = np.interp(places, places[~left_out], times[~left_out])
    bridged: Floats = np.where(left_out, others, times)
    return bridged


def _described(
    times: Floats, changes: list[Change], slope: Drift | None, between: Alternation | None
) -> str | None:
    """What describes the run best: "levels", a "line", two levels in turn, or nothing (null)."""
    logs = np.log(times)
    given: dict[str, Description] = {}
    if changes:
        flat = np.log(_usual(times, _levels(times, changes), None))
        given["levels"] = (flat, 2 * len(changes) + 1)
    if slope is not None:
        given["line"] = (np.log(_line(times)), 2)
    if between is not None:
        given |= descriptions(logs, between)
    if not given:
        return None
    # Single slow steps would hide what the others do.
    nearest = np.min([np.abs(logs - expected) for expected, _ in given.values()], axis=0)
    odd = nearest > max(np.log1p(SINGLE), 4 * 1.4826 * float(np.median(nearest)))
    logs = np.log(_bridged(times, odd))
    # Many levels are near to anything: they count where they are much nearer than what is simple.
    complex_ = {"switches"} if len(changes) < 2 else {"switches", "levels"}
    simple = {name: way for name, way in given.items() if name not in complex_}
    first, best = shortest(logs, simple), shortest(logs, given)
    if first is None or best is None or best in simple:
        return best
    return best if length(logs, *given[best]) <= length(logs, *given[first]) - SAVED else first


def _is_known(between: Alternation, slow: Int64s) -> bool:
    """Whether the slow one of two levels is slow steps by another name."""
    return float(np.isin(between.slow, slow).mean()) >= KNOWN


def _moved(
    steps: _Steps,
    changes: list[Change],
    slope: Drift | None,
    usual: Floats,
    slow: Int64s,
    limits: Thresholds,
) -> Movement:
    times, pace, seen = steps
    spacing = _spacing(slow, times.size, limits)
    slow = slow[seen[slow]]
    beyond, total = times[slow] - usual[slow], times[seen].sum()
    return Movement(
        levels=_levels(pace, changes),
        changes=changes,
        slope=slope,
        slow=slow,
        slow_share=float(beyond.sum() / total),
        rest_share=float((beyond.sum() - beyond.max(initial=0.0)) / total),
        spacing=spacing,
        uneven=_uneven(pace / usual, limits),
    )


def _two_levels(steps: _Steps, between: Alternation, limits: Thresholds) -> Movement:
    """A run whose slow steps are those of the slower one of two levels."""
    fast = np.full_like(between.fit, between.fit.min())
    moved = _moved(steps, [], None, fast, between.slow, limits)
    spacing = None
    if between.every is not None and between.p is not None:
        spacing = Spacing(between.every, between.regular, between.p)
    return replace(moved, spacing=spacing, uneven=_uneven(steps.pace / between.fit, limits))


def _slow(excess: Floats, limits: Thresholds) -> Int64s:
    """Positions of steps that take much longer than usual, beyond their spread."""
    spread = 1.4826 * float(np.median(np.abs(excess - np.median(excess))))
    return np.flatnonzero(excess > max(limits.slow_step, limits.slow_step_noise * spread))


# --- Levels


def _changes(times: Floats, limits: Thresholds) -> list[Change]:
    """Change points in order, looked for in the whole run, then in its parts."""
    changes: list[Change] = []
    parts = [(0, times.size)]
    while parts and len(changes) < LEVELS:
        start, end = parts.pop(0)
        change = _change(times[start:end], limits)
        if change is not None:
            middle = start + change.start
            changes.append(Change(middle, change.ratio, change.p))
            parts += [(start, middle), (middle, end)]
    return _settled(times, sorted(changes, key=lambda change: change.start), limits)


def _settled(times: Floats, changes: list[Change], limits: Thresholds) -> list[Change]:
    """Change points between the levels that all of them leave, without those that change nothing.

    The first one is placed while the others are unknown: with three levels, it may lie inside the
    middle one.
    """
    while changes:
        changes = _placed_again(times, changes, limits.level_steps)
        least = min(changes, key=lambda change: abs(np.log(change.ratio)))
        if abs(np.log(least.ratio)) >= np.log1p(limits.moved_within):
            break
        changes = [change for change in changes if change is not least]
    return changes


def _placed_again(times: Floats, changes: list[Change], least: int) -> list[Change]:
    """Each change point where it fits best between its neighbors, from left to right."""
    edges = [0, *(change.start for change in changes), times.size]
    for n in range(1, len(edges) - 1):
        start, end = edges[n - 1], edges[n + 1]
        edges[n] = start + _placed(times[start:end], edges[n] - start, least)
    levels = [float(np.median(times[start:end])) for start, end in pairwise(edges)]
    return [
        Change(first, after / before, change.p)
        for change, first, (before, after) in zip(
            changes, edges[1:-1], pairwise(levels), strict=True
        )
    ]


def _change(times: Floats, limits: Thresholds) -> Change | None:
    """The surest change point of a stretch; null when chance, or too small a change, makes it."""
    size, least = times.size, limits.level_steps
    if size < 2 * least:
        return None
    ranks = _ranks(times)
    sums = _sums(ranks[None, :], least)[0]
    first, seen = int(np.argmax(sums)) + least, float(sums.max())
    as_far = sum(int((_sums(rows, least).max(axis=1) >= seen).sum()) for rows in _shuffled(ranks))
    p = (as_far + 1) / (SHUFFLES + 1)
    first = _placed(times, first, least)
    ratio = float(np.median(times[first:]) / np.median(times[:first]))
    small = abs(np.log(ratio)) < np.log1p(limits.moved_within)
    return None if p >= limits.within_p or small else Change(first, ratio, p)


def _ranks(times: Floats) -> Floats:
    """Ranks from 0; equal steps share the mean of theirs."""
    _, rank_of, counts = np.unique(times, return_inverse=True, return_counts=True)
    shared: Floats = (np.cumsum(counts) - (counts + 1) / 2)[rank_of]
    return shared


def _sums(ranks: Floats, least: int) -> Floats:
    """How far the ranks before each place are from their mean, summed (Pettitt's statistic)."""
    size = ranks.shape[1]
    apart: Floats = np.cumsum(ranks - (size - 1) / 2, axis=1)[:, least - 1 : size - least]
    return np.abs(apart)


def _shuffled(ranks: Floats) -> Iterator[Floats]:
    """`SHUFFLES` orders of blocks of consecutive steps, some rows at a time."""
    draw = generator()
    size = ranks.size
    blocks = np.array_split(np.arange(size), max(2, -(-size // block_length(size))))
    first, lengths = (np.array(of) for of in zip(*((b[0], b.size) for b in blocks), strict=True))
    at_once = max(1, CELLS // size)
    for start in range(0, SHUFFLES, at_once):
        count = min(at_once, SHUFFLES - start)
        order = np.concatenate([draw.permutation(len(blocks)) for _ in range(count)])
        longs = lengths[order]
        begun = np.cumsum(longs) - longs
        places = np.repeat(first[order] - begun, longs) + np.arange(count * size)
        yield ranks[places].reshape(count, size)


def _placed(times: Floats, near: int, least: int) -> int:
    """Where two levels fit best, from `near` on: ranks tell that there is a change, not where.

    The place that suits the medians of both parts, then the medians that suit the place, until
    neither moves.
    """
    first, last = least, times.size - least
    if first >= last:
        return near
    edge = near
    for _ in range(PLACES):
        before, after = np.median(times[:edge]), np.median(times[edge:])
        worse = np.cumsum(np.abs(times - before) - np.abs(times - after))
        best = first + int(np.argmin(worse[first - 1 : last]))
        if best == edge:
            break
        edge = best
    return edge


def _levels(times: Floats, changes: list[Change]) -> list[Level]:
    edges = [0, *(change.start for change in changes), times.size]
    return [
        Level(start, end - start, float(np.median(times[start:end])))
        for start, end in pairwise(edges)
    ]


# --- Drift


def _slope(times: Floats, limits: Thresholds) -> Drift | None:
    """The drift over the run; null when it is small, or its interval holds no drift."""
    if times.size < 2:
        return None
    times = _thinned(times)
    ratio = _drift(np.arange(times.size, dtype=np.float64), times)
    draw, length = generator(), block_length(times.size)
    size = (SLOPES, -(-times.size // length))
    first = draw.integers(0, times.size - length + 1, size)
    drawn = _drifts(times, (first[:, :, None] + np.arange(length)).reshape(SLOPES, -1))
    # 99 %: as rare a mistake as `within_p` allows elsewhere.
    low, high = (float(b) for b in np.quantile(drawn, (0.005, 0.995)))
    sure = low > 0 or high < 0
    if not sure or abs(ratio) < np.log1p(limits.moved_within):
        return None
    return Drift(*(float(np.exp(value)) for value in (ratio, low, high)))


def _thinned(times: Floats) -> Floats:
    """At most `MOST` values: medians of consecutive steps, since pairs of all are compared."""
    if times.size <= MOST:
        return times
    return np.array([np.median(chunk) for chunk in np.array_split(times, MOST)])


def _drift(places: Floats, times: Floats) -> float:
    """The rise of log time over the run."""
    return _rise(places, np.log(np.maximum(times, 1e-9)))


def _drifts(times: Floats, drawn: Int64s) -> Floats:
    """What `_drift` gives for each row of steps that were drawn, some of them several times.

    All slopes are sorted once. In a row, that between two steps counts as often as one was drawn
    times as often as the other, and the median is where half of them are passed.
    """
    rows = drawn.shape[0]
    cells = drawn * rows + np.arange(rows)[:, None]
    counts = np.bincount(cells.ravel(), minlength=rows * times.size).astype(np.int32)
    often = counts.reshape(times.size, rows)
    later, earlier = np.tril_indices(times.size, -1)
    logs = np.log(np.maximum(times, 1e-9))
    slopes = (logs[later] - logs[earlier]) / (later - earlier)
    order = np.argsort(slopes)
    passed = often[later[order]]
    passed *= often[earlier[order]]
    np.cumsum(passed, axis=0, out=passed)
    whole = passed[-1]
    middle = [
        slopes[order[np.minimum((passed <= half).sum(axis=0), order.size - 1)]]
        for half in ((whole - 1) // 2, whole // 2)
    ]
    drifts: Floats = (middle[0] + middle[1]) / 2 * np.ptp(drawn, axis=1)
    return drifts


def _rise(places: Floats, values: Floats) -> float:
    """Theil and Sen's slope, times the length of the run."""
    apart = places[:, None] - places[None, :]
    later = apart > 0
    slopes = (values[:, None] - values[None, :])[later] / apart[later]
    return float(np.median(slopes) * (places.max() - places.min())) if slopes.size else 0.0


def _line(times: Floats) -> Floats:
    """The fitted line, in multiples of the typical step: of log time, or of time if that is nearer.

    What leaks adds as much in every step; what decays takes a share.
    """
    step = np.arange(times.size, dtype=np.float64)
    thin = _thinned(times)
    places = np.linspace(0.0, times.size - 1.0, thin.size)
    shape = np.exp(_drift(places, thin) * step / max(1, times.size - 1))
    of_logs: Floats = shape * np.median(times / shape)
    rise = _rise(places, thin) * step / max(1, times.size - 1)
    straight = rise + np.median(times - rise)
    if straight.min() <= 0:
        return of_logs
    return min(of_logs, straight, key=lambda fit: float(np.abs(np.log(times / fit)).mean()))


# --- Slow steps


def _usual(times: Floats, levels: list[Level], slope: Drift | None) -> Floats:
    """What each step would take if it were typical."""
    if slope is not None:
        return _line(times)
    return np.concatenate([np.full(level.size, level.typical) for level in levels])


def _uneven(excess: Floats, limits: Thresholds) -> bool:
    """True when single steps differ by much, or short stretches do by more than chance gives.

    `excess` is what each step takes over what it would if it were typical. The medians of stretches
    of a run that alternates between levels lie further apart than those of its steps in any order.
    """
    if _range(excess[None, :])[0] > 1 + limits.slow_step:
        return True
    size = limits.level_steps
    whole = excess[: excess.size // size * size]
    seen = _range(_medians(whole[None, :], size))[0]
    if seen <= 1 + limits.moved_within:
        return False
    draw = generator()
    at_once = max(1, CELLS // whole.size)
    as_far = 0
    for start in range(0, SHUFFLES, at_once):
        rows = draw.permuted(np.tile(whole, (min(at_once, SHUFFLES - start), 1)), axis=1)
        as_far += int((_range(_medians(rows, size)) >= seen).sum())
    return (as_far + 1) / (SHUFFLES + 1) < limits.within_p


def _medians(rows: Floats, size: int) -> Floats:
    """Of each stretch of `size` steps, row by row."""
    medians: Floats = np.median(rows.reshape(rows.shape[0], -1, size), axis=2)
    return medians


def _range(rows: Floats) -> Floats:
    """The 90th percentile of each row over the 10th."""
    low, high = np.quantile(rows, (0.1, 0.9), axis=1)
    ratio: Floats = high / low
    return ratio


def _spacing(slow: Int64s, steps: int, limits: Thresholds) -> Spacing | None:
    """The distance at which slow steps come; null when chance makes it as regular."""
    if slow.size < AT_LEAST:
        return None
    distances, fits = _regular(slow[None, :], steps)
    distance, regular = int(distances[0]), float(fits[0])
    draw = generator()
    placed = np.stack([draw.choice(steps, slow.size, replace=False) for _ in range(SHUFFLES)])
    p = (int((_regular(placed, steps)[1] >= regular).sum()) + 1) / (SHUFFLES + 1)
    periodic = regular >= limits.periodic and p < limits.within_p
    return Spacing(distance, regular, p) if periodic else None


def _regular(slow: Int64s, steps: int) -> tuple[Int64s, Floats]:
    """For each row of slow steps the distance that fits best, and how well.

    1 means that the slow steps are all steps that follow each other at that distance: it is the
    overlap (Dice's) of both.
    """
    rows = slow.shape[0]
    best, where = np.zeros(rows), np.zeros(rows, dtype=np.int64)
    for distance in range(2, min(LONGEST, steps // AT_LEAST) + 1):
        cells = slow % distance + distance * np.arange(rows)[:, None]
        hits = np.bincount(cells.ravel(), minlength=rows * distance).reshape(rows, distance)
        met = np.bincount(np.arange(steps) % distance, minlength=distance)
        fit = np.where(hits >= AT_LEAST, 2 * hits / (slow.shape[1] + met), 0.0).max(axis=1)
        where[fit > best] = distance
        best = np.maximum(best, fit)
    return where, best
