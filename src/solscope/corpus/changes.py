"""Change points of a series: e-divisive.

A split of a stretch of values is measured by the energy distance between both sides (Székely and
Rizzo), which is zero only for equal distributions. The best split counts when fewer than a share
`LEVEL` of random orders of the same values have one as good; then both sides are searched in turn
(Matteson and James, 2014: "A nonparametric approach for multiple change point analysis"). Nothing
is assumed about the shape of the noise. The seed is fixed: the same series gives the same changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.01
ORDERS = 199
"""Random orders that a split is compared with."""
SHORTEST = 3
"""Values that each side of a split has at least."""
LONGEST = 500
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
    scores = _energies(distances)
    best = int(np.argmax(scores))
    if not scores[best] > 0:
        return None
    as_good = 1  # The order as it is.
    for _ in range(ORDERS):
        order = draw.permutation(count)
        as_good += bool(_energies(distances[np.ix_(order, order)]).max() >= scores[best])
        if as_good > LEVEL * (ORDERS + 1):
            return None  # Whatever the remaining orders say.
    return Change(best + SHORTEST, as_good / (ORDERS + 1))


def _energies(distances: Floats) -> Floats:
    """Energy of every split that leaves `SHORTEST` values on each side."""
    count = distances.shape[0]
    before = np.tril(distances, -1).sum(axis=1)
    after = distances.sum(axis=1) - before
    size = np.arange(1, count)
    left, right = np.cumsum(before)[:-1], after.sum() - np.cumsum(after)[:-1]
    between = np.cumsum(after - before)[:-1]
    rest = count - size
    keep = slice(SHORTEST - 1, count - SHORTEST)
    size, rest = size[keep], rest[keep]
    energy = (
        2 * between[keep] / (size * rest)
        - 2 * left[keep] / (size * (size - 1))
        - 2 * right[keep] / (rest * (rest - 1))
    )
    scaled: Floats = energy * size * rest / count
    return scaled
