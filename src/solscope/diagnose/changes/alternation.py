"""A run that goes back and forth between two levels: which steps are on the slow one, how often.

Each step belongs to the nearer of two means of log time. Steps of any distribution can be cut in
two like that. The cut means something where the levels come back after a fixed number of steps; or
where steps switch between them less often than in random order, and the two levels with all their
switches are a shorter description than "steady" with noise that remembers (`selection.py`). Fewer
than three switches are change points, except for one slow stretch inside the run.

Worked example: 60 steps, ten of 4 ms, ten of 6 ms, and so on. The levels are 4 and 6 ms, with five
switches and three slow stretches, one every 20 steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solscope.diagnose.changes.selection import FLOOR, Description, shortest
from solscope.diagnose.thresholds import Thresholds
from solscope.intervals import Int64s
from solscope.resample import Floats, generator

Bools = npt.NDArray[np.bool_]

ROUNDS = 50
"""After which the two levels stay where they are."""
SWITCHES = 3
"""Fewest changes between the levels: fewer are change points ..."""
BURST = 2
"""... unless a slow stretch begins and ends inside the run."""
REGULAR = 0.5
"""Least correlation of the levels with themselves one period later."""
LONGEST = 64
"""Longest period looked for, in steps."""
FEWER = -3.09
"""The 0.1 % quantile of a normal distribution: the cut was made where steps differ most."""
CHAINS = 299
"""Runs that switch at random, which a period is compared with."""


@dataclass(frozen=True)
class Alternation:
    """Two levels."""

    slow: Int64s
    """Positions of the steps on the slow level."""
    fit: Floats
    """The level of each step."""
    switches: int
    every: int | None
    """Steps after which the levels repeat; null where they do not."""
    regular: float
    """Their correlation with themselves so many steps later; 0 without a period."""
    p: float | None
    """How often switches at random repeat as well."""


def alternation(times: Floats, limits: Thresholds, rare: Bools | None = None) -> Alternation | None:
    """The two levels of a run; null where it has no such levels, or few switches between them.

    The times of `rare` steps are those of their neighbors, which proves no persistence.
    """
    logs = np.log(times)
    high = _upper(logs)
    every, regular, p = _period(high, limits)
    if every is None:
        if not _persists(high if rare is None else high[~rare]):
            return None
        high = _stretches(logs, high)
        every, regular, p = _period(high, limits)
    switches = int(np.count_nonzero(np.diff(high)))
    least = SWITCHES if high[0] else BURST
    if switches < (SWITCHES if every is not None else least):
        return None
    low_ms, high_ms = float(np.median(times[~high])), float(np.median(times[high]))
    if high_ms < (1 + limits.moved_within) * low_ms:
        return None
    fit = np.where(high, high_ms, low_ms)
    if every is None and _lasting(high) < least:
        return None
    alternation = Alternation(np.flatnonzero(high), fit, switches, every, regular, p)
    return None if shortest(logs, descriptions(logs, alternation)) is None else alternation


def descriptions(logs: Floats, alternation: Alternation) -> dict[str, Description]:
    """Two levels as switches at places of their own, and as a pattern that repeats."""
    free = {
        "switches": (
            _means(logs, alternation.fit > alternation.fit.min()),
            2 + alternation.switches,
        )
    }
    if alternation.every is None:
        return free
    slow = np.isin(np.arange(logs.size), alternation.slow)
    place = np.arange(logs.size) % alternation.every
    again = (np.bincount(place, slow) / np.bincount(place) > 0.5)[place]
    # Two levels, the period, and where the slow part begins and ends.
    return {**free, "pattern": (_means(logs, again), 5)}


def _means(logs: Floats, high: Bools) -> Floats:
    """The mean of each level, step by step."""
    if high.all() or not high.any():
        return np.full_like(logs, logs.mean())
    means: Floats = np.where(high, logs[high].mean(), logs[~high].mean())
    return means


def _stretches(logs: Floats, high: Bools) -> Bools:
    """The levels again, where each switch has to be worth what describing it costs.

    The cheapest path through the two levels (Viterbi's), so that noise does not split a stretch.
    """
    for _ in range(ROUNDS):
        levels = np.array([np.median(logs[~high]), np.median(logs[high])])
        spread = max(FLOOR, float(np.abs(logs - levels[high.astype(np.int64)]).mean()))
        again = _cheapest(np.abs(logs[:, None] - levels) / spread, math.log(logs.size) / 2)
        if (again == high).all() or again.all() or not again.any():
            break
        high = again
    return high


def _cheapest(costs: Floats, switch: float) -> Bools:
    """Which of two levels each step is on, when a switch costs as much as `switch`."""
    total = costs[0]
    came = np.zeros(costs.shape, dtype=bool)
    for step in range(1, len(costs)):
        came[step] = total[::-1] + switch < total
        total = np.where(came[step], total[::-1] + switch, total) + costs[step]
    path = np.empty(len(costs), dtype=bool)
    path[-1] = total[1] < total[0]
    for step in range(len(costs) - 1, 0, -1):
        path[step - 1] = path[step] ^ came[step, int(path[step])]
    return path


def _persists(high: Bools) -> bool:
    """Whether there are fewer switches than in steps of two kinds in random order (1 of 1,000).

    The runs test of Wald and Wolfowitz: two levels in random order are noise with two peaks.
    """
    n, slow = high.size, int(high.sum())
    switches = int(np.count_nonzero(np.diff(high)))
    expected = 2 * slow * (n - slow) / n
    deviation = math.sqrt(max(expected * (expected - 1) / (n - 1), 1e-12))
    return switches < expected + FEWER * deviation


def _lasting(high: Bools) -> int:
    """Switches without those of odd steps."""
    return int(np.count_nonzero(np.diff(_majority(high[None, :])[0])))


def _upper(logs: Floats) -> Bools:
    """Which values are nearer to the upper one of two means."""
    low, high = (float(value) for value in np.quantile(logs, (0.05, 0.95)))
    upper = logs > (low + high) / 2
    for _ in range(ROUNDS):
        if not upper.any() or upper.all():
            break
        middle = (logs[upper].mean() + logs[~upper].mean()) / 2
        again = logs > middle
        if (again == upper).all():
            break
        upper = again
    return upper


def _period(high: Bools, limits: Thresholds) -> tuple[int | None, float, float | None]:
    """The number of steps after which the levels repeat, unless chance repeats them as well."""
    lags, peaks = _best_repeats(high[None, :])
    every, regular = int(lags[0]), float(peaks[0])
    if regular < REGULAR:
        return None, 0.0, None
    as_regular = int((_best_repeats(_at_random(high))[1] >= regular).sum())
    p = (as_regular + 1) / (CHAINS + 1)
    return (every, regular, p) if p < limits.within_p else (None, 0.0, None)


def _best_repeats(rows: Bools) -> tuple[Int64s, Floats]:
    """Of each row, as it is or without odd steps, whichever repeats better."""
    (lag, plain), (other, smooth) = _repeats(rows), _repeats(_majority(rows))
    return np.where(smooth > plain, other, lag), np.maximum(plain, smooth)


def _majority(rows: Bools) -> Bools:
    """What most of each five neighboring steps are.

    Single steps may be odd: what makes decode steps slow makes a longer prefill slower by less.
    """
    padded = np.pad(rows, ((0, 0), (2, 2)), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1)
    most: Bools = around.sum(axis=2) >= 3
    return most


def _repeats(rows: Bools) -> tuple[Int64s, Floats]:
    """Of each row, the lag at which it repeats best and the correlation there; 0 where none.

    Only lags count before which the row has become unlike itself: the first steps of a long stretch
    are followed by steps of the same stretch, which is no period.
    """
    centered = rows - rows.mean(axis=1, keepdims=True)
    variance = np.maximum(centered.var(axis=1), 1e-12)
    best, where = np.zeros(rows.shape[0]), np.zeros(rows.shape[0], dtype=np.int64)
    unlike = np.zeros(rows.shape[0], dtype=bool)
    for lag in range(1, min(LONGEST, rows.shape[1] // 3) + 1):
        alike = (centered[:, :-lag] * centered[:, lag:]).mean(axis=1) / variance
        # Multiples of a period repeat as well as it does; the first one counts.
        better = unlike & (alike > best + 0.1)
        where[better], best[better] = lag, alike[better]
        unlike |= alike <= 0
    return where, best


def _at_random(high: Bools) -> Bools:
    """Runs that switch as often up and down as this one, at random places.

    At most as often as steps in any order do: switching at every step is not random.
    """
    share = float(high.mean())
    up = float(np.mean(high[1:][~high[:-1]])) if not high[:-1].all() else 0.0
    down = float(np.mean(~high[1:][high[:-1]])) if high[:-1].any() else 0.0
    up, down = min(up, share), min(down, 1 - share)
    drawn = generator().random((high.size, CHAINS))
    rows = np.empty((high.size, CHAINS), dtype=bool)
    state = drawn[0] < share
    for step, chance in enumerate(drawn):
        state = np.where(state, chance >= down, chance < up)
        rows[step] = state
    return rows.T
