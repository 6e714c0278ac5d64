"""Tests of two samples that deserve the name: robust effects, intervals, many tests, equivalence.

One value is one step, or one sample of a sensor; values copied to many rows are never counted
twice. Too few values give "not tested", not p = 1.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from solscope.diagnose.statistics.significance import mann_whitney_p, student_p, welch_p
from solscope.resample import Floats, TwoSamples

State = Literal["changed", "unchanged", "unclear", "not_tested"]
MOST_PAIRS = 400
"""Values of a sample used for statistics over all pairs; of more, evenly spaced ones."""


class Comparison(msgspec.Struct, frozen=True):
    """Two samples, compared; statistics are null when there are too few values for them."""

    n: list[int]
    """Values on the normal and on the abnormal side."""
    normal: float | None
    """Median."""
    abnormal: float | None
    ratio: float | None = None
    """Hodges-Lehmann estimate of abnormal over normal; null when a value is not above 0."""
    mean_ratio: float | None = None
    low: float | None = None
    """95 % interval of the ratio of means, from a block bootstrap."""
    high: float | None = None
    cliff: float | None = None
    """Cliff's delta, -1 to 1: how surely an abnormal value is larger than a normal one."""
    p_mann_whitney: float | None = None
    p_welch: float | None = None
    p_equivalent: float | None = None
    """Two one-sided tests: small if the difference is within the margin."""


def compare(samples: TwoSamples, min_n: int, margin: float) -> Comparison:
    """All statistics of two samples."""
    before, after = samples.before, samples.after
    n = [before.size, after.size]
    normal, abnormal = (float(np.median(v)) if v.size else None for v in (before, after))
    if min(n) < min_n:
        return Comparison(n, normal, abnormal)
    positive = before.mean() > 0
    bounds = samples.ratio() if positive and not np.array_equal(before, after) else None
    return Comparison(
        n=n,
        normal=normal,
        abnormal=abnormal,
        ratio=hodges_lehmann_ratio(before, after),
        mean_ratio=float(after.mean() / before.mean()) if positive else None,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        cliff=cliffs_delta(before, after),
        p_mann_whitney=mann_whitney_p(before, after),
        p_welch=welch_p(before, after),
        p_equivalent=equivalence_p(before, after, margin),
    )


def state_of(test: Comparison, q: float | None, fdr: float, floor: float) -> State:
    """What a test says: changed needs q below `fdr` and an effect beyond `floor`."""
    if test.p_mann_whitney is None or q is None:
        return "not_tested"
    ratio = test.ratio if test.ratio is not None else test.mean_ratio
    effect = math.inf if ratio is None or ratio <= 0 else abs(math.log(ratio))
    if q < fdr and effect > math.log1p(floor) and test.normal != test.abnormal:
        return "changed"
    return "unchanged" if test.p_equivalent is not None and test.p_equivalent < fdr else "unclear"


def hodges_lehmann_ratio(before: Floats, after: Floats) -> float | None:
    """Median of all ratios between an abnormal and a normal value."""
    if min(before.size, after.size) == 0 or min(before.min(), after.min()) <= 0:
        return None
    first, second = np.log(_spaced(before)), np.log(_spaced(after))
    return float(np.exp(np.median(second[:, None] - first[None, :])))


def cliffs_delta(before: Floats, after: Floats) -> float:
    """P(abnormal > normal) - P(abnormal < normal) over all pairs."""
    first, second = _spaced(before), _spaced(after)
    return float(np.sign(second[:, None] - first[None, :]).mean())


def _spaced(values: Floats) -> Floats:
    if values.size <= MOST_PAIRS:
        return values
    indices = np.linspace(0, values.size - 1, MOST_PAIRS).round().astype(np.int64)
    return np.sort(values)[indices]


def benjamini_hochberg(p_values: list[float | None]) -> list[float | None]:
    """q-values over the tests that were made; null stays null."""
    tested = [(p, index) for index, p in enumerate(p_values) if p is not None]
    out: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank, (p, index) in reversed(list(enumerate(sorted(tested), start=1))):
        least = min(least, p * len(tested) / rank)
        out[index] = least
    return out


def equivalence_p(before: Floats, after: Floats, margin: float) -> float | None:
    """p of the claim that the means differ by less than `margin` of the normal one (Welch TOST)."""
    if min(before.size, after.size) < 2 or before.mean() <= 0:
        return None
    bound = margin * float(before.mean())
    parts = [float(values.var(ddof=1)) / values.size for values in (before, after)]
    difference = float(after.mean() - before.mean())
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return 0.0 if abs(difference) < bound else 1.0
    freedom = sum(parts) ** 2 / sum(
        variance**2 / (values.size - 1)
        for variance, values in zip(parts, (before, after), strict=True)
        if variance
    )
    return max(
        _upper_tail((bound - difference) / error, freedom),
        _upper_tail((bound + difference) / error, freedom),
    )


def _upper_tail(t: float, freedom: float) -> float:
    two_sided = student_p(t, freedom)
    return two_sided / 2 if t > 0 else 1 - two_sided / 2
