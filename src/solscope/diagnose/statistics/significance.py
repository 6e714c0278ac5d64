"""Classic tests of two samples, without a statistics library at run time.

They follow SciPy to the last digits that matter: `ttest_ind(equal_var=False)`, `mannwhitneyu` with
its default choice between exact and normal distribution, `fisher_exact`. Tests compare with it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EXACT_UP_TO = 8
"""With a sample as small as this, and no ties, the distribution of U is counted out."""


def welch_p(first: Floats, second: Floats) -> float | None:
    """Two-sided p-value of Welch's t-test; null when it is 0/0, or a sample has fewer than two."""
    if min(first.size, second.size) < 2:
        return None
    parts = [float(values.var(ddof=1)) / values.size for values in (first, second)]
    difference = float(first.mean() - second.mean())
    variance = sum(parts)
    if variance == 0.0:
        return None if difference == 0.0 else 0.0
    freedom = variance**2 / sum(
        term**2 / (values.size - 1) for term, values in zip(parts, (first, second), strict=True)
    )
    return student_p(difference / math.sqrt(variance), freedom)


def student_p(t: float, freedom: float) -> float:
    """Probability that |t| is at least this large."""
    return incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))


def mann_whitney_p(first: Floats, second: Floats) -> float:
    """Two-sided p-value of the Mann-Whitney test; 1 for an empty sample."""
    n, m = first.size, second.size
    if not n or not m:
        return 1.0
    both = np.concatenate([first, second])
    _, where, counts = np.unique(both, return_inverse=True, return_counts=True)
    # Equal values share the mean of their ranks.
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[where.reshape(-1)]
    u = float(ranks[:n].sum()) - n * (n + 1) / 2.0
    u = max(u, n * m - u)
    if min(n, m) <= EXACT_UP_TO and counts.max() == 1:
        return min(1.0, 2.0 * _tail(n, m, round(u)))
    total = n + m
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    deviation = math.sqrt(max(0.0, n * m / 12.0 * (total + 1 - ties / (total * (total - 1)))))
    if deviation == 0.0:
        return 1.0
    z = (u - n * m / 2.0 - 0.5) / deviation
    return min(1.0, math.erfc(z / math.sqrt(2.0)))


def fisher_p(hits: int, n: int, other_hits: int, m: int) -> float:
    """Two-sided p-value of Fisher's exact test of two shares: `hits` of n, `other_hits` of m."""
    total = hits + other_hits
    least, most = max(0, total - m), min(n, total)
    logs = np.array([_log_choose(n, k) + _log_choose(m, total - k) for k in range(least, most + 1)])
    chances = np.exp(logs - logs.max())
    # Tables as unlikely as this one, up to rounding, count as well.
    as_rare = chances <= chances[hits - least] * (1 + 1e-7)
    return min(1.0, float(chances[as_rare].sum() / chances.sum()))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _tail(n: int, m: int, u: int) -> float:
    ways = _ways(min(n, m), max(n, m))
    return float(ways[u:].sum() / ways.sum())


@cache
def _ways(n: int, m: int) -> Floats:
    """In how many orders of n and m distinct values U is 0, 1, ..., n*m: a Gaussian binomial."""
    size = n * m + 1
    ways = np.zeros(size)
    ways[0] = 1.0
    for k in range(1, n + 1):
        for total in range(size - 1, m + k - 1, -1):
            ways[total] -= ways[total - m - k]
        for total in range(k, size):
            ways[total] += ways[total - k]
    return ways


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """By Lentz's method; it converges in some tens of terms below the mean of the distribution."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), tiny)
    value = d
    for term in range(1, 500):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for factor in (even, odd):
            d = 1.0 + factor * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + factor / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value
