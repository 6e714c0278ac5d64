"""How sure a ratio of two means is: a block bootstrap over steps.

Steps that follow each other resemble each other, so runs of consecutive steps are drawn, not single
ones (circular blocks of about n^(1/3) steps). Resampling n values with replacement makes the spread
of a mean too small by sqrt((n - 1) / n), and a quantile of the normal kind is too narrow for few
values; both are made good, so that five steps do not look surer than they are. Fixed seed: the same
input gives the same interval.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 0
_CELLS = 4_000_000
"""Resampled blocks held at one time; bounds the memory for profiles with very many steps."""
_NORMAL = 1.959964
"""97.5 % quantile of the normal distribution."""


class Ratio(NamedTuple):
    """A ratio of means with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


def ratio_interval(before: Floats, after: Floats) -> Ratio:
    """Mean of `after` over mean of `before` (which must not be 0), with its interval."""
    draw = np.random.default_rng(SEED)
    below, above = resampled_means(before, draw), resampled_means(after, draw)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(above / np.maximum(below, 0.0), nan=1.0, posinf=np.inf)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf")
    return Ratio(float(after.mean() / before.mean()), max(0.0, float(low)), float(high))


def resampled_means(values: Floats, draw: np.random.Generator) -> Floats:
    """`RESAMPLES` means of resampled blocks, spread as the mean of so few values really is."""
    size = values.size
    length = max(1, round(size ** (1 / 3)))
    blocks = np.concatenate([values, values[: length - 1]])
    sums = np.convolve(blocks, np.ones(length), mode="valid")
    count = -(-size // length)
    step = max(1, _CELLS // count)
    parts = [
        sums[draw.integers(0, size, (min(step, RESAMPLES - at), count))].mean(axis=1)
        for at in range(0, RESAMPLES, step)
    ]
    means: Floats = np.concatenate(parts) / length
    center = float(values.mean())
    return center + (means - center) * widen(size)


def widen(size: int) -> float:
    """Student's quantile over the normal one (Peiser's expansion), and sqrt(n / (n - 1))."""
    free = max(size - 1, 1)
    z = _NORMAL
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return float(student / z * np.sqrt(size / free))
