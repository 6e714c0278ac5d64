"""Where a further value lies, as far as those before it tell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from solscope.diagnose.statistics.significance import student_p
from solscope.resample import Floats

SAME = 1e-9
"""Values nearer to each other than this differ by rounding."""
FEWEST = 5
"""Fewest values that allow a prediction of a further one."""


class Prediction(NamedTuple):
    """A further value: its center, its standard deviation, and half the width of its interval."""

    center: float
    spread: float
    """Of a further value around the center, which is itself uncertain."""
    half: float
    n: int

    def z(self, value: float) -> float:
        """How many standard deviations a value lies from the center."""
        apart = value - self.center
        if abs(apart) < SAME:
            return 0.0
        return apart / self.spread if self.spread > SAME else math.copysign(math.inf, apart)


def predict(values: Floats, level: float) -> Prediction:
    """The prediction interval of Student's t; at least two values are needed."""
    n = values.size
    spread = float(values.std(ddof=1)) * math.sqrt(1 + 1 / n)
    return Prediction(float(values.mean()), spread, student_quantile(level, n - 1) * spread, n)


def student_quantile(level: float, freedom: float) -> float:
    """The t beyond which |t| is found with probability 1 - `level`."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > 1 - level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 1 - level else (low, middle)
    return high


def outside_when_left_out(values: Floats, level: float, least: float) -> int:
    """How many values lie outside the interval (at least `least` wide) that the others give."""
    if values.size <= FEWEST:
        return 0
    outside = 0
    for index in range(values.size):
        rest = predict(np.delete(values, index), level)
        outside += int(abs(values[index] - rest.center) > max(rest.half, least))
    return outside
