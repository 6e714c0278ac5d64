"""Change points of a series: e-divisive.

A split of a stretch of values is measured by the energy distance (Székely and Rizzo) between what
lies before it and what follows, up to any later place; it is zero only for equal distributions.
The best split counts when at most a share `LEVEL` of random orders of the same values has one as
good; then both sides are searched in turn (Matteson and James, 2014: "A nonparametric approach for
multiple change point analysis"). Nothing is assumed about the shape of the noise. The seed is
fixed: the same series gives the same changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.02
"""Share of random orders that may have as good a split, for a change that counts."""
ORDERS = 299
"""Random orders that a split is compared with."""
SHORTEST = 3
"""Values that each side of a split has at least."""
LONGEST = 300
"""Values that are looked at, from the latest back; bounds time and memory."""
SEED = 0
"""Of the random orders: the same store gives the same changes."""
FEW = 23
"""Orders that are looked at before all the others."""
AT_ONCE = 65_536
"""Values of orders that are worked on at once, so that they stay in a cache."""
TIE = 1e-10
"""Energies that are closer than this share of the largest possible are computed again."""


class Change(NamedTuple):
    """A place where the values change."""

    at: int
    """Index of the first value after it."""
    p_value: float


def change_points(values: Floats) -> list[Change]:
    """All significant changes, in order; at most `LONGEST` values are taken."""
    if values.size > LONGEST:
        raise ValueError(f"{values.size} values are more than {LONGEST}")
    draw = np.random.default_rng(SEED)
    changes: list[Change] = []
    stretches = [(0, values.size)]
    while stretches:
        start, end = stretches.pop()
        change = _split(values[start:end], draw)
        if change is not None:
            place = start + change.at
            changes.append(Change(place, change.p_value))
            stretches += [(start, place), (place, end)]
    return sorted(changes)


def _split(values: Floats, draw: np.random.Generator) -> Change | None:
    """The best split of one stretch, when chance does not explain it."""
    if values.size < 2 * SHORTEST:
        return None
    score, cut = _best(values)
    if not score > 0:
        return None
    most = int(LEVEL * (ORDERS + 1))
    as_good = 1  # The order as it is.
    # A few orders often settle that it is chance; what they leave open takes all the others.
    for count in (FEW, ORDERS - FEW):
        before = draw.bit_generator.state
        orders = np.stack([draw.permutation(values.size) for _ in range(count)], axis=1)
        good = _as_good(values[orders], score)
        if as_good + good.sum() > most:
            # As if one order had been drawn after the other, up to the one that settled it.
            drawn = int(np.argmax(as_good + good.cumsum() > most)) + 1
            draw.bit_generator.state = before
            for _ in range(drawn):
                draw.permutation(values.size)
            return None  # Whatever the remaining orders say.
        as_good += int(good.sum())
    return Change(cut, as_good / (ORDERS + 1))


def _best(values: Floats) -> tuple[float, int]:
    """Energy and place of the best split, over all places and all ends of what follows it."""
    count = values.size
    sums = np.zeros((count + 1, count + 1))
    distances = np.abs(values[:, None] - values[None, :])
    np.cumsum(np.cumsum(distances, axis=0), axis=1, out=sums[1:, 1:])
    cut = np.arange(SHORTEST, count - SHORTEST + 1)[:, None]
    end = np.arange(2 * SHORTEST, count + 1)[None, :]
    before, after = cut, np.maximum(end - cut, 2)
    within = np.diagonal(sums)
    left, both = within[cut], within[end]
    cross = sums[cut, end] - left
    right = both - left - 2 * cross
    energy = (
        2 * cross / (before * after)
        - left / (before * (before - 1))
        - right / (after * (after - 1))
    ) * (before * after / (before + after))
    energy[end - cut < SHORTEST] = -np.inf
    place = int(np.argmax(energy))
    return float(energy.flat[place]), int(cut[place // energy.shape[1], 0])


def _as_good(orders: Floats, score: float) -> npt.NDArray[np.bool_]:
    """For each column, the values in one order: whether its best split reaches `score`.

    Sums in another sequence than those of `_best` differ in the last digits: what comes out close
    to the score is decided by that function.
    """
    count = orders.shape[0]
    width = max(1, AT_ONCE // count)
    energies = np.concatenate(
        [_energies(orders[:, first : first + width]) for first in range(0, orders.shape[1], width)]
    )
    close = TIE * count * float(np.ptp(orders[:, 0]))
    good = energies >= score
    for column in np.flatnonzero(np.abs(energies - score) <= close):
        good[column] = _best(orders[:, column])[0] >= score
    return good


def _energies(orders: Floats) -> Floats:
    """The energy of the best split of each column.

    The same sums as in `_best`, one place after the other and for all columns at once: `reach` is
    the sum of distances of each value to those before the place, `left` that of all pairs before
    it, `both` that of all pairs before each end.
    """
    count, columns = orders.shape
    gaps, reach, both = np.empty_like(orders), np.zeros_like(orders), np.zeros_like(orders)
    for cut in range(1, count):
        gap = np.subtract(orders[cut:], orders[cut - 1], out=gaps[cut:])
        reach[cut:] += np.abs(gap, out=gap)
    np.cumsum(2 * reach, axis=0, out=both)  # By now: distances of each to all before it.
    reach[:] = 0
    left, best = np.zeros(columns), np.full(columns, -np.inf)
    crosses, energy = np.empty_like(orders), np.empty_like(orders)
    for cut in range(1, count - SHORTEST + 1):
        left += 2 * reach[cut - 1]
        gap = np.subtract(orders[cut:], orders[cut - 1], out=gaps[cut:])
        reach[cut:] += np.abs(gap, out=gap)
        if cut < SHORTEST:
            continue
        after = np.arange(SHORTEST, count - cut + 1)[:, None]
        weight = cut * after / (cut + after)
        inside = weight / (after * (after - 1))
        cross = np.cumsum(reach[cut:], axis=0, out=crosses[cut:])[SHORTEST - 1 :]
        here = energy[cut + SHORTEST - 1 :]
        np.multiply(cross, 2 * weight / (cut * after) + 2 * inside, out=here)
        here -= np.multiply(both[cut + SHORTEST - 1 :], inside, out=cross)
        here += np.multiply(left, inside - weight / (cut * (cut - 1)), out=cross)
        np.maximum(best, here.max(axis=0), out=best)
    return best
