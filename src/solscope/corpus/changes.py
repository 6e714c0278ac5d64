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
ORDERS = 299
"""Random orders that a split is compared with."""
SHORTEST = 3
"""Values that each side of a split has at least."""
LONGEST = 300
"""Values that are looked at, from the latest back; bounds time and memory."""
SEED = 0


class Change(NamedTuple):
    """A place where the values change."""

    at: int
    """Index of the first value after it."""
    p_value: float


def change_points(values: Floats) -> list[Change]:
    """All significant changes, in order; at most `LONGEST` values are taken."""
    if values.size > LONGEST:
        raise ValueError(f"{values.size} values are more than {LONGEST}")
    distances = np.abs(values[:, None] - values[None, :])
    draw = np.random.default_rng(SEED)
    found: list[Change] = []
    stretches = [(0, values.size)]
    while stretches:
        start, end = stretches.pop()
        change = _split(distances[start:end, start:end], draw)
        if change is not None:
            at = start + change.at
            found.append(Change(at, change.p_value))
            stretches += [(start, at), (at, end)]
    return sorted(found)


def _split(distances: Floats, draw: np.random.Generator) -> Change | None:
    """The best split of one stretch, when chance does not explain it."""
    count = distances.shape[0]
    if count < 2 * SHORTEST:
        return None
    score, at = _best(distances)
    if not score > 0:
        return None
    as_good = 1  # The order as it is.
    for _ in range(ORDERS):
        order = draw.permutation(count)
        as_good += _best(distances[np.ix_(order, order)])[0] >= score
        if as_good > LEVEL * (ORDERS + 1):
            return None  # Whatever the remaining orders say.
    return Change(at, as_good / (ORDERS + 1))


def _best(distances: Floats) -> tuple[float, int]:
    """Energy and place of the best split, over all places and all ends of what follows it."""
    count = distances.shape[0]
    sums = np.zeros((count + 1, count + 1))
    np.cumsum(np.cumsum(distances, axis=0), axis=1, out=sums[1:, 1:])
    at = np.arange(SHORTEST, count - SHORTEST + 1)[:, None]
    end = np.arange(2 * SHORTEST, count + 1)[None, :]
    before, after = at, np.maximum(end - at, 2)
    within = np.diagonal(sums)
    left, both = within[at], within[end]
    cross = sums[at, end] - left
    right = both - left - 2 * cross
    energy = (
        2 * cross / (before * after)
        - left / (before * (before - 1))
        - right / (after * (after - 1))
    ) * (before * after / (before + after))
    energy[end - at < SHORTEST] = -np.inf
    place = int(np.argmax(energy))
    return float(energy.flat[place]), int(at[place // energy.shape[1], 0])
