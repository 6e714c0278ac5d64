"""One clock for all ranks, from the ends of the collectives that they share.

No rank leaves a synchronizing collective before the last has entered it, so its ends lie together.
What a rank's clock shows more than the common one is a line, offset and drift, through the
differences between its ends and the middle of all ranks' ends; most calls decide, and outliers
count nothing. Recorded clocks of one host often agree already. That is checked, not believed.

An example, in microseconds. Three ranks leave two collectives at these times of their own clocks:

    rank 0      1,000   9,000
    rank 1      1,002   9,001
    rank 2      1,050   9,058

The middle of the ends is 1,002 and 9,001. Rank 2 shows 48 more at the first one and 57 more at the
second: an offset, and a drift of 9 in 8,000, about 1,100 parts per million. Drift is corrected only
where it is `DRIFT_SURE` times its own error, for which two collectives are too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.causality import Limits, limits
from solscope.ranks.match import Matched
from solscope.run import Run

Floats = NDArray[np.float64]

LEAST_CALLS = 5
"""Fewer shared collectives give no clock."""
AS_TIGHT = 2.0
"""Kinds and sizes whose ends are spread by up to this many times the least count as well."""
DRIFT_SURE = 4.0
"""A drift is corrected when it is this many times its own error."""
ROUNDS = 5


class RankClock(msgspec.Struct, frozen=True):
    """What a rank's recorded clock shows more than that of the first rank."""

    rank: int
    offset_us: float | None
    """In the middle of the recording; null without enough collectives."""
    drift_ppm: float | None
    error_us: float | None
    """95 % interval of the offset, and half of the spread: what a rank that always leaves
    collectives a little earlier or later could hide."""
    collectives: int


class Clock(msgspec.Struct, frozen=True):
    """How the ranks' clocks were brought together."""

    method: str
    """`collectives`: by the ends of collectives; `recorded`: as recorded, which no message
    contradicts; `messages`: between the limits that messages set; `durations`: there is no common
    clock."""
    error_us: float | None
    """The largest error of a rank's clock."""
    spread_us: float | None
    """Median distance of an end from the middle of all ranks' ends, once aligned."""
    recorded_apart_us: float | None
    """How far apart the recorded clocks were."""
    reason: str | None
    """Why there is no common clock."""
    ranks: list[RankClock]


@dataclass(frozen=True)
class _Line:
    """Offset and drift of one rank, against its own time."""

    offset: float = 0.0
    drift: float = 0.0
    center: float = 0.0
    error: float | None = None
    calls: int = 0

    def at(self, own: Floats) -> Floats:
        return self.offset + self.drift * (own - self.center)


_NO_LINE = _Line()


@dataclass(frozen=True)
class Correction:
    """From a rank's recorded clock to the common one, which is that of the first aligned rank."""

    shift_ns: int = 0
    """What to add besides the lines."""
    zero_ns: int = 0
    """Unix time from which `own` and `first` count."""
    own: _Line = _NO_LINE
    first: _Line = _NO_LINE

    def applied(self, unix_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times on the common clock, in Unix ns; their order stays the same."""
        own = (unix_ns - self.zero_ns).astype(np.float64)
        common = own - self.own.at(own)
        # Only the differences pass through floats, which hold them to the nanosecond.
        moved = self.first.at(common) - self.own.at(own)
        return unix_ns + np.rint(moved).astype(np.int64) + self.shift_ns


@dataclass(frozen=True)
class Times:
    """Starts and ends of matched collectives on the common clock, ns; NaN where a rank has none."""

    start: Floats
    end: Floats
    corrections: tuple[Correction, ...] = ()
    """How any other time of each rank comes to that clock."""


def align(run: Run, matched: Matched) -> tuple[Clock, Times]:
    """The common clock, and the collectives on it."""
    bases = [int(r.calls["start_ns"].to_numpy().min()) if r.calls.height else 0 for r in run.ranks]
    start, end = (_matrix(run, matched, name, bases) for name in ("start_ns", "end_ns"))
    sync = matched.table["synchronizing"].to_numpy().astype(bool)
    lines = _lines(end[sync])
    if sync.any():
        sync[sync] = _tight(end[sync], lines, matched.table.filter(pl.Series(sync)))
        lines = _lines(end[sync])
    aligned = [rank_index for rank_index, line in enumerate(lines) if line.error is not None]
    first = aligned[0] if aligned else 0
    moved = [_moved(values, lines, bases, first) for values in (start, end)]
    times = Times(moved[0], moved[1], _corrections(lines, bases, first))
    spread = _spread(times.end[sync][:, aligned]) if len(aligned) > 1 else None
    rows = [
        _row(
            run.ranks[rank_index].rank,
            line,
            (bases[rank_index] - bases[first] - lines[first].offset) / 1e3,
            spread,
        )
        for rank_index, line in enumerate(lines)
    ]
    if spread is None:
        zeros = np.array(bases) - bases[0] if bases else np.empty(0)
        by_messages = limits(run, matched, start + zeros, end + zeros) if len(bases) > 1 else None
        if by_messages is not None:
            back = tuple(Correction(shift_ns=-round(offset)) for offset in by_messages.offset)
            moved = [t + zeros - by_messages.offset for t in (start, end)]
            return _by_messages(run, by_messages), Times(moved[0], moved[1], back)
        why = "fewer than two ranks share collectives whose ends can be compared"
        return Clock("durations", None, None, None, why, rows), times
    apart = [row.offset_us for row in rows if row.offset_us is not None]
    error = max(row.error_us for row in rows if row.error_us is not None)
    return Clock("collectives", error, spread / 1e3, max(apart) - min(apart), None, rows), times


def _by_messages(run: Run, limits: Limits) -> Clock:
    rows = [
        RankClock(rank.rank, offset / 1e3, None, error / 1e3, rank.calls.height)
        for rank, offset, error in zip(run.ranks, limits.offset, limits.error, strict=True)
    ]
    method = "recorded" if limits.recorded else "messages"
    apart = float(np.ptp(limits.offset)) / 1e3
    return Clock(method, float(limits.error.max()) / 1e3, None, apart, None, rows)


def _matrix(run: Run, matched: Matched, name: str, bases: list[int]) -> Floats:
    """One column of the ranks' calls, by collective and rank, from each rank's own zero."""
    matrix = np.full(matched.index.shape, np.nan)
    for rank_index, rank in enumerate(run.ranks):
        has_call = matched.index[:, rank_index] >= 0
        matrix[has_call, rank_index] = (
            rank.calls[name].to_numpy()[matched.index[has_call, rank_index]] - bases[rank_index]
        )
    return matrix


def _tight(ends: Floats, lines: list[_Line], table: pl.DataFrame) -> NDArray[np.bool_]:
    """Calls of the kinds and sizes whose ends lie closest together.

    Where ranks send different amounts, as to hot experts, some leave later than others.
    """
    moved = np.stack(
        [
            ends[:, rank_index] - line.at(ends[:, rank_index])
            for rank_index, line in enumerate(lines)
        ],
        1,
    )
    have = (~np.isnan(moved)).sum(1) > 1
    spread = np.full(ends.shape[0], np.nan)
    spread[have] = np.nanmax(moved[have], axis=1) - np.nanmin(moved[have], axis=1)
    power = pl.col("bytes").cast(pl.Float64).log(2).floor()
    classes = table.select(pl.struct("kind", power).rank("dense")).to_series().to_numpy()
    usual = {
        number: float(np.median(spread[mine]))
        for number in np.unique(classes)
        if (mine := (classes == number) & have).sum() >= LEAST_CALLS
    }
    if not usual:
        return np.ones(ends.shape[0], bool)
    close = [number for number, value in usual.items() if value <= AS_TIGHT * min(usual.values())]
    return np.isin(classes, close)


def _lines(ends: Floats) -> list[_Line]:
    """Offset and drift of every rank against the first that was settled."""
    have = ~np.isnan(ends)
    width = ends.shape[1]
    lines = [_Line() for _ in range(width)]
    if not have.any():
        return lines
    shared = have.astype(np.int64).T @ have.astype(np.int64)
    np.fill_diagonal(shared, 0)
    if shared.max(initial=0) < LEAST_CALLS:
        return lines
    reference = int(np.argmax(shared.sum(0)))
    done = [reference]
    lines[reference] = _Line(error=0.0, calls=int(have[:, reference].sum()))
    while len(done) < width:
        left = [rank_index for rank_index in range(width) if rank_index not in done]
        following = max(left, key=lambda rank_index: int(shared[rank_index, done].max()))
        if shared[following, done].max() < LEAST_CALLS:
            break
        lines[following] = _fit(ends[:, following], _middle(ends, lines, done))
        done.append(following)
    for _ in range(ROUNDS):
        middle = _middle(ends, lines, done)
        lines = [
            _fit(ends[:, rank_index], middle) if rank_index in done else lines[rank_index]
            for rank_index in range(width)
        ]
    return lines


def _middle(ends: Floats, lines: list[_Line], done: list[int]) -> Floats:
    """The middle of all ranks' ends on the common clock."""
    moved = np.stack(
        [ends[:, rank_index] - lines[rank_index].at(ends[:, rank_index]) for rank_index in done], 1
    )
    covered = ~np.isnan(moved).all(1)
    middle = np.full(ends.shape[0], np.nan)
    middle[covered] = np.nanmedian(moved[covered], axis=1)
    return middle


def _fit(own: Floats, common: Floats) -> _Line:
    """The line through most of the differences between a rank's ends and the common ones."""
    both = ~np.isnan(own) & ~np.isnan(common)
    x, y = own[both], (own - common)[both]
    if x.size < LEAST_CALLS:
        return _Line()
    center = float(x.mean())
    offset, drift, keep = float(np.median(y)), 0.0, np.ones(x.size, bool)
    for _ in range(4):
        apart = np.abs(y - offset - drift * (x - center))
        keep = apart <= max(4.0 * float(np.median(apart)), 1.0)
        offset, drift, error = _least_squares(x[keep] - center, y[keep])
    return _Line(offset, drift, center, error, int(keep.sum()))


def _least_squares(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Offset, drift where it is sure, and the 95 % interval of both at the far end."""
    middle, far = float(x.mean()), float(np.abs(x).max(initial=0.0))
    offset = float(y.mean())
    about = float(((x - middle) ** 2).sum())
    drift = float(((x - middle) * (y - offset)).sum()) / about if about else 0.0
    residuals = y - offset - drift * (x - middle)
    noise = float(np.sqrt((residuals**2).sum() / max(1, y.size - 2)))
    unsure = noise / np.sqrt(about) if about else 0.0
    if abs(drift) <= DRIFT_SURE * unsure:
        return offset, 0.0, float(1.96 * np.std(y) / np.sqrt(y.size))
    error = float(1.96 * np.hypot(noise / np.sqrt(y.size), unsure * far))
    return offset - drift * middle, drift, error


def _moved(values: Floats, lines: list[_Line], bases: list[int], first: int) -> Floats:
    """Times on the clock of the first rank that is known, from its zero."""
    columns = []
    for rank_index, line in enumerate(lines):
        own = values[:, rank_index]
        if line.error is None:
            columns.append(own + (bases[rank_index] - bases[first]))
        else:
            common = own - line.at(own)
            columns.append(common + lines[first].at(common))
    return np.stack(columns, 1) if columns else values


def _corrections(lines: list[_Line], bases: list[int], first: int) -> tuple[Correction, ...]:
    """The same for any time of a rank."""
    return tuple(
        Correction()
        if line.error is None
        else Correction(bases[first] - bases[rank_index], bases[rank_index], line, lines[first])
        for rank_index, line in enumerate(lines)
    )


def _spread(ends: Floats) -> float:
    pairs = ends[(~np.isnan(ends)).sum(1) > 1]
    middle = np.nanmedian(pairs, axis=1, keepdims=True)
    return float(np.nanmedian(np.abs(pairs - middle)))


def _row(rank: int, line: _Line, base_us: float, spread: float | None) -> RankClock:
    if line.error is None or spread is None:
        return RankClock(rank, None, None, None, line.calls)
    error = (line.error + spread / 2) / 1e3
    return RankClock(rank, line.offset / 1e3 + base_us, 1e6 * line.drift, error, line.calls)
