"""From samples to the numbers of a line: median, spread, and whether the spread is small enough."""

from __future__ import annotations

import math
from collections.abc import Sequence

from solscope.bench.base import Timing

MAX_MEDIAN_ERROR = 0.01
"""Sampling stops when half the 95 % interval of the median is at most this share of it.

Example: 30 samples with a median of 100 us and an IQR of 3 us give 1.57 * 3 / sqrt(30) = 0.86 us:
less than 1 us, so no more are taken."""
CLOCK_ERROR_US = 0.1
"""Medians are never asked to be surer than this: clocks of devices tick in 32 ns."""


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values are, linear between neighbors."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def uncertainty(values: Sequence[float]) -> float:
    """Half the 95 % interval of the median: 1.57 IQR / sqrt(n), as in a notched box plot."""
    spread = quantile(values, 0.75) - quantile(values, 0.25)
    return 1.57 * spread / math.sqrt(len(values))


def is_noisy(values: Sequence[float]) -> bool:
    """Whether the median is not yet known well enough."""
    return uncertainty(values) > max(MAX_MEDIAN_ERROR * median(values), CLOCK_ERROR_US)


def timing(restarts: Sequence[Sequence[float]], clock: str, activities: float | None) -> Timing:
    """Samples of several processes as one timing.

    The median is over all samples, so that a process that differs widens the spread.
    """
    values = [value for samples in restarts for value in samples]
    return Timing(
        median_us=round(median(values), 4),
        iqr_us=round(quantile(values, 0.75) - quantile(values, 0.25), 4),
        p20_us=round(quantile(values, 0.2), 4),
        p80_us=round(quantile(values, 0.8), 4),
        samples=[round(value, 3) for value in values],
        samples_per_restart=[len(samples) for samples in restarts],
        clock=clock,
        activities=activities,
        noisy=is_noisy(values),
    )
