"""How steps and sensors of two runs went over time: what a diagnosis sums up, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solscope.diagnose.changes.counters import by_key, series
from solscope.diagnose.matching.units import Units

Pair = tuple[Sequence[float], Sequence[float]]
"""Values of the normal and of the abnormal run."""


@dataclass(frozen=True)
class Trends:
    """Two runs over time."""

    steps_ms: Pair
    """Times of the compared steps, as the diagnosis counts them."""
    counters: dict[tuple[str, int | None], Pair]
    """By name and device: readings, or rates of a count that grows, in the unit of the counter."""


def trends(units: Units) -> Trends:
    """Compared steps and all sensors of both runs, in order of time."""
    normal, abnormal = units.normal.run, units.abnormal.run
    steps = []
    for side, factor in ((0, 1.0), (1, units.factor)):
        rows = [(stratum.normal, stratum.abnormal)[side] for stratum in units.strata]
        ordered = np.sort(np.concatenate([np.empty(0, np.int64), *rows]))
        steps.append((factor * (units.normal, units.abnormal)[side].wall[ordered] / 1e6).tolist())
    sides = [by_key(run) for run in (normal, abnormal)]
    return Trends(
        steps_ms=(steps[0], steps[1]),
        counters={
            key: (
                series(normal, sides[0].get(key)).values.tolist(),
                series(abnormal, sides[1].get(key)).values.tolist(),
            )
            for key in {**sides[0], **sides[1]}
        },
    )
