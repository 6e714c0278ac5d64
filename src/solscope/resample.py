"""Confidence intervals by bootstrap, for the whole project.

What is drawn with replacement is what varies by itself: blocks of consecutive steps, since steps
that follow each other resemble each other; whole profiles, since calls of one profile do; processes
and then samples within them. Resampling n values makes the spread of a mean too small by
sqrt((n - 1) / n), and a quantile of the normal kind is too narrow for few values; `widen` makes
both good, so that five steps do not look surer than they are. Fixed seed: the same input gives the
same interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Int64s: TypeAlias = npt.NDArray[np.int64]

LEVEL = 0.95
SEED = 0
RESAMPLES = 10_000
"""Draws of blocks of steps."""
SPLITS = 400
"""Random splits of one run that measure its noise."""
POOL_DRAWS = 1000
"""Draws of profiles, or of pools of them."""
NESTED_DRAWS = 2000
"""Draws of processes and of samples within them."""
_CELLS = 4_000_000
"""Resampled blocks held at a time; bounds the memory for profiles with very many steps."""
_CACHED_CELLS = 1_000_000
"""Draws of samples with no more resampled blocks than this, 8 MB, are kept."""
_COLUMNS = 256
"""Columns computed at a time."""
_NORMAL = 1.959964
"""97.5 % quantile of the normal distribution."""
_TAILS = ((1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2)
_ROUND_TAILS = (0.025, 0.975)
"""The same up to rounding: (1 - 0.95) / 2 lies a little above 0.025, which of 10,000 draws is the
next one. Intervals over strata have always used these and all others those; figures stay as they
were."""


class Ratio(NamedTuple):
    """A ratio of means with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


def generator() -> np.random.Generator:
    """Where all draws come from."""
    return np.random.default_rng(SEED)


def widen(size: int) -> float:
    """Student's quantile over the normal one (Peiser's expansion), and sqrt(n / (n - 1))."""
    free = max(size - 1, 1)
    z = _NORMAL
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return float(student / z * np.sqrt(size / free))


# --- Steps, in blocks


def block_length(size: int) -> int:
    """Consecutive steps that are drawn together: about n^(1/3)."""
    length: int = max(1, round(size ** (1 / 3)))
    return length


def resampled_means(samples: Sequence[Floats]) -> list[Floats]:
    """For each sample, `RESAMPLES` means, spread as the mean of so few values really is.

    Blocks of consecutive values are drawn. They are circular, so that steps at the edges are drawn
    as often as others.
    """
    drawn = _draws(tuple(values.size for values in samples))
    return [_means(values, blocks) for values, blocks in zip(samples, drawn, strict=True)]


def _means(values: Floats, drawn: Iterable[Int64s]) -> Floats:
    size = values.size
    length = block_length(size)
    blocks = np.concatenate([values, values[: length - 1]])
    sums = np.convolve(blocks, np.ones(length), mode="valid")
    means: Floats = np.concatenate([sums[starts].mean(axis=1) for starts in drawn]) / length
    center = float(values.mean())
    return center + (means - center) * widen(size)


def block_weights(size: int, draws: int, seed: int = SEED) -> Floats:
    """How often each of `size` steps is drawn, a row per draw of circular blocks of steps."""
    length = block_length(size)
    first = np.random.default_rng(seed).integers(0, size, (draws, _blocks(size)))
    cells = first + size * np.arange(draws)[:, None]
    begun = np.bincount(cells.ravel(), minlength=draws * size).reshape(draws, size)
    weights: Floats = np.zeros((draws, size))
    for later in range(length):
        weights += np.roll(begun, later, axis=1)
    return weights


def succession(hits: int, trials: int) -> float:
    """The chance that the next trial is a hit, by Laplace's rule of succession; never 0 or 1."""
    return (hits + 1) / (trials + 2)


def _draws(sizes: tuple[int, ...]) -> Iterable[Iterable[Int64s]]:
    """Which blocks are drawn from samples of these sizes, a row per draw.

    The seed is fixed, so that samples of the same sizes get the same draws; a diagnosis compares
    hundreds of such, and draws for short ones are kept.
    """
    cells = RESAMPLES * sum(_blocks(size) for size in sizes)
    return _cached_draws(sizes) if cells <= _CACHED_CELLS else _new_draws(sizes)


def _new_draws(sizes: tuple[int, ...]) -> Iterator[Iterator[Int64s]]:
    draw = generator()
    return (_drawn_blocks(size, draw) for size in sizes)


@lru_cache(maxsize=8)
def _cached_draws(sizes: tuple[int, ...]) -> list[list[Int64s]]:
    # In this order all rows are summed at once; short rows one by one take twice as long.
    return [[np.asfortranarray(part) for part in parts] for parts in _new_draws(sizes)]


def _drawn_blocks(size: int, draw: np.random.Generator) -> Iterator[Int64s]:
    step = max(1, _CELLS // _blocks(size))
    for first in range(0, RESAMPLES, step):
        yield draw.integers(0, size, (min(step, RESAMPLES - first), _blocks(size)))


def _blocks(size: int) -> int:
    """Blocks that together are as long as the sample."""
    return -(-size // block_length(size))


@dataclass(frozen=True)
class TwoSamples:
    """Steps of two runs; they are resampled once for all intervals that are asked for."""

    before: Floats
    after: Floats

    @cached_property
    def _means(self) -> list[Floats]:
        return resampled_means((self.before, self.after))

    def ratio(self) -> Ratio:
        """Mean of `after` over mean of `before` (which must not be 0), with its interval."""
        below, above = self._means
        low, high = _ratios(below, above, 0.0, _TAILS)
        return Ratio(float(self.after.mean() / self.before.mean()), low, high)

    def difference(self, weights: tuple[float, float]) -> tuple[float, float]:
        """Interval of the difference of the means, each with its own weight."""
        below, above = self._means
        return _drawn_bounds(weights[1] * above - weights[0] * below, _ROUND_TAILS)


def weighted_ratio(
    before: Sequence[Floats], after: Sequence[Floats], weights: Sequence[float]
) -> Ratio:
    """Ratio of weighted sums of means over strata, with its interval."""
    means = resampled_means((*before, *after))
    below, above = (
        sum(w * steps for w, steps in zip(weights, side, strict=True))
        for side in (means[: len(before)], means[len(before) :])
    )
    sums = [
        sum(w * float(steps.mean()) for w, steps in zip(weights, side, strict=True))
        for side in (before, after)
    ]
    low, high = _ratios(np.asarray(below), np.asarray(above), 1e-12, _ROUND_TAILS)
    return Ratio(sums[1] / sums[0], low, high)


def _ratios(
    below: Floats, above: Floats, least: float, tails: tuple[float, float]
) -> tuple[float, float]:
    """Bounds of ratios of draws; a mean time below `least` is none, and 0/0 is no change."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(above / np.maximum(below, least), nan=1.0, posinf=np.inf)
    low, high = _drawn_bounds(ratios, tails)
    return max(0.0, low), high


def _drawn_bounds(draws: Floats, tails: tuple[float, float]) -> tuple[float, float]:
    """The bounds as values that were drawn, so that an infinite one stays what it is."""
    places = [math.ceil(tail * draws.size) - 1 for tail in tails]
    low, high = np.partition(draws, places)[places]
    return float(low), float(high)


def split_noise(values: Floats, quantile: float) -> float | None:
    """How far apart two halves of one run lie, as a fraction, for samples as long as the run.

    Blocks of consecutive steps are dealt at random to two halves; two samples twice as long differ
    by a factor of sqrt(2) less. Null with fewer than four values.
    """
    size = values.size
    if size < 4:
        return None
    block = np.arange(size) // block_length(size)
    blocks = int(block[-1]) + 1
    draw = generator()
    sides = np.array([draw.permutation(blocks) for _ in range(SPLITS)]) < blocks // 2
    member = sides[:, block]
    counts = member.sum(axis=1)
    two_sided = (counts > 0) & (counts < size)
    member, counts = member[two_sided], counts[two_sided]
    first = (member * values).sum(axis=1) / counts
    second = (~member * values).sum(axis=1) / (size - counts)
    spread = np.abs(np.log(np.maximum(first, 1e-12) / np.maximum(second, 1e-12)))
    return float(np.expm1(np.quantile(spread, quantile) / math.sqrt(2)))


# --- Profiles


def mean_intervals(parts: Floats, weights: Floats) -> Floats | None:
    """Low and high bound of sum(parts) / sum(weights) for each column; null for a single pool.

    `parts` has a row per pool, already multiplied by its weight, and a column per mean.
    """
    count = weights.size
    if count < 2:
        return None
    chosen = _times_drawn(count)
    whole = chosen @ weights
    usable = whole > 0
    chosen, whole = chosen[usable], whole[usable]
    bounds = []
    for first in range(0, parts.shape[1], _COLUMNS):
        some = parts[:, first : first + _COLUMNS]
        center = some.sum(axis=0) / weights.sum()
        means = center + (chosen @ some / whole[:, None] - center) * widen(count)
        bounds.append(np.quantile(means, _TAILS, axis=0))
    joined: Floats = np.concatenate(bounds, axis=1).clip(0.0, 1.0)
    return joined


def _times_drawn(count: int) -> Floats:
    """How often each pool was drawn, a row per draw of as many pools as there are."""
    drawn = generator().integers(0, count, (POOL_DRAWS, count))
    cells = drawn + count * np.arange(POOL_DRAWS)[:, None]
    counts = np.bincount(cells.ravel(), minlength=POOL_DRAWS * count)
    return counts.reshape(POOL_DRAWS, count).astype(np.float64)


# --- Samples within processes


def nested_medians(processes: Sequence[Floats], draw: np.random.Generator) -> Floats:
    """`NESTED_DRAWS` medians: processes with replacement, then samples of each with replacement."""
    size = min(samples.size for samples in processes)
    table = np.stack(
        [samples[draw.integers(0, samples.size, (NESTED_DRAWS, size))] for samples in processes]
    )
    picked = draw.integers(0, len(processes), (NESTED_DRAWS, len(processes)))
    chosen = table[picked, np.arange(NESTED_DRAWS)[:, None]]
    medians: Floats = np.median(chosen.reshape(NESTED_DRAWS, -1), axis=1)
    return medians


def bounds(draws: Floats) -> tuple[float, float]:
    """The 95 % interval of an estimate from its draws."""
    low, high = np.quantile(draws, _TAILS)
    return float(low), float(high)
