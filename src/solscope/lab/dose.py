"""How much of a fault makes the step as much slower as wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

TARGETS = (1.12, 1.4, 2.2)
"""Wanted slowdowns of the three strengths."""
WINDOWS = ((1.07, 1.2), (1.32, 1.55), (1.9, 2.8))
"""A slowdown in here is near enough."""
PROBES = 3
"""Trials per strength."""
_GROWTH = 4.0
"""A dose is never raised by more than this factor at once."""


class Range(NamedTuple):
    """What doses there are."""

    first: tuple[float, float, float]
    highest: float
    integer: bool

    def clip(self, dose: float) -> float:
        # Noise can make a tiny dose look strong.
        dose = min(max(dose, self.first[0] / 10), self.highest)
        return float(max(1, round(dose))) if self.integer else dose


def search(
    limits: Range,
    strength: int,
    tried: dict[float, float],
    measure: Callable[[float], float],
    above: float = 0.0,
) -> float:
    """The dose for strength 0, 1 or 2: `measure` gives the slowdown of a dose.

    What was tried is kept in `tried` for the next strength, whose dose is `above` that of the last.
    """
    low, high = WINDOWS[strength]
    for _ in range(PROBES):
        inside = [dose for dose, ratio in tried.items() if low <= ratio <= high]
        if inside:
            break
        wanted = limits.clip(_next(limits, strength, tried))
        if wanted in tried:
            break
        tried[wanted] = measure(wanted)
    target = math.log(TARGETS[strength])
    best = min(tried, key=lambda dose: abs(math.log(max(tried[dose], 0.01)) - target))
    if tried[max(tried)] < low and max(tried) >= limits.highest / 2:
        # Out of reach, or hidden: the three strengths still differ.
        best = limits.clip(limits.highest * (0.4, 0.7, 1.0)[strength])
    elif not low <= tried[best] <= high:
        best = limits.clip(_next(limits, strength, tried))
    return best if best > above else max(limits.clip(above * 1.5), above)


def _next(limits: Range, strength: int, tried: dict[float, float]) -> float:
    """A dose worth trying: between the two that enclose the target, or beyond the last."""
    target = TARGETS[strength]
    points = sorted({0.0: 1.0, **tried}.items())
    for (below, low), (above, high) in pairwise(points):
        if low <= target <= high and high > low:
            return below + (above - below) * (target - low) / (high - low)
    last, ratio = points[-1]
    if not last:
        return limits.first[strength]
    slope = (ratio - 1.0) / last
    beyond = last + (target - ratio) / slope if slope > 0 else last * _GROWTH
    guess = limits.first[strength]
    if guess > last:
        # Effects may grow faster than their dose: not further than the guess at first.
        beyond = min(beyond, guess)
    return min(max(beyond, last * 1.2), last * _GROWTH)
