"""How sure a weighted mean of shares is: a bootstrap over profiles.

Profiles are drawn with replacement, as many as there are, and the weighted mean is taken of each
draw; its 2.5 % and 97.5 % quantiles, spread a little for few profiles, are the interval. Profiles,
not calls, are drawn: the calls of one profile come from one run and resemble each other.

Beyond `BLOCKS` profiles they are put together at random (always the same way) into so many blocks,
and blocks are drawn. That keeps time and memory flat, and the spread is the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solscope.compare.bootstrap import LEVEL, SEED, widen

Floats = npt.NDArray[np.float64]
BLOCKS = 1000
RESAMPLES = 1000
_COLUMNS = 256
"""Columns computed at one time."""


def blocks_of(profiles: int) -> npt.NDArray[np.int64]:
    """The block of each profile."""
    if profiles <= BLOCKS:
        return np.arange(profiles)
    numbers = np.arange(profiles) % BLOCKS
    return np.random.default_rng(SEED).permutation(numbers)


def mean_intervals(parts: Floats, weights: Floats) -> npt.NDArray[np.float64] | None:
    """Low and high bound of sum(parts) / sum(weights) for each column; null for a single block.

    `parts` has a row per block, already multiplied by its weight, and a column per mean.
    """
    count = weights.size
    if count < 2:
        return None
    chosen = _draws(count)
    whole = chosen @ weights
    usable = whole > 0
    chosen, whole = chosen[usable], whole[usable]
    tail = (1 - LEVEL) / 2
    bounds = []
    for at in range(0, parts.shape[1], _COLUMNS):
        some = parts[:, at : at + _COLUMNS]
        center = some.sum(axis=0) / weights.sum()
        means = center + (chosen @ some / whole[:, None] - center) * widen(count)
        bounds.append(np.quantile(means, [tail, 1 - tail], axis=0))
    joined: Floats = np.concatenate(bounds, axis=1).clip(0.0, 1.0)
    return joined


def _draws(count: int) -> Floats:
    """How often each block was drawn, a row per draw of as many blocks as there are."""
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    cells = drawn + count * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(cells.ravel(), minlength=RESAMPLES * count)
    return counts.reshape(RESAMPLES, count).astype(np.float64)
