"""Weighted means of shares of GPU time: the arithmetic of `importance`.

Shares are rounded to 2^-40 and added as integers, so that sums do not depend on how rows are spread
over files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solscope.corpus.aggregates.overall import ONE
from solscope.corpus.queries.overall_sums import EACH_ALONE, add_by_pool
from solscope.corpus.queries.shares import Cells
from solscope.resample import mean_intervals

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_INTERVALS = 1000
"""Keys of a group, from the one with most time on, that get an interval."""
AT_ONCE = 1 << 20
"""Cells whose shares are computed together."""


@dataclass(frozen=True)
class Means:
    """Weighted means over the units of one group, by code."""

    importance: Floats
    recoverable: Floats
    frequency: Floats
    intervals: dict[int, tuple[float, float]]


def group_means(
    cells: Cells, group: int, weight_of: Floats, shown: Ints, most: float | None = None
) -> Means:
    """Means of the shares in one group; the codes in `shown` get an interval.

    No weight is more than `most`, by default the largest in the group; shares are rounded by it.
    """
    inside = np.flatnonzero((cells.group_of == group) & (cells.totals > 0))
    weight = weight_of[cells.at_of[inside]]
    if not weight.sum() > 0:
        weight = np.ones(weight.size)
    heaviest = float(weight.max()) if most is None else most
    sums = _ShareSums(cells, inside, weight / heaviest, shown)
    begin, end = cells.bounds[group].tolist()
    for start in range(begin, end, AT_ONCE):
        sums.take_cells(slice(start, min(start + AT_ONCE, end)))
    unit = heaviest / ONE
    scale = unit / float(weight.sum())
    return Means(
        importance=sums.share.astype(np.float64) * scale,
        recoverable=sums.spared.astype(np.float64) * scale,
        frequency=sums.occurs.astype(np.float64) * scale,
        intervals=sums.intervals(weight, unit),
    )


class _ShareSums:
    """Weighted shares by key, and by pool for those that get an interval: sums of integers."""

    def __init__(self, cells: Cells, inside: Ints, weight: Floats, shown: Ints) -> None:
        self.cells, self.inside, self.shown = cells, inside, shown
        # Empty unless there is one group, which all profiles are in, and all runs count the same.
        start = cells.overall
        self.share, self.spared, self.occurs = (
            sums.copy() for sums in (start.share, start.spared, start.occurs)
        )
        self.column = np.full(cells.names.height, -1, np.int64)
        self.column[shown] = np.arange(shown.size)
        self.weight = np.full(cells.totals.size, -1.0)
        """Of each unit, as a part of the heaviest; negative outside the group."""
        self.weight[inside] = weight
        self.pool = np.zeros(cells.totals.size, np.int64)
        if inside.size <= EACH_ALONE:
            runs, pool = np.unique(cells.run_of[cells.at_of[inside]], return_inverse=True)
            self.pool[inside] = pool
            self.pooled = np.zeros((shown.size, runs.size), np.int64)
        else:
            self.pool[inside] = cells.pool_of[cells.at_of[inside]]
            self.pooled = start.pooled[shown]

    def intervals(self, weight: Floats, unit: float) -> dict[int, tuple[float, float]]:
        """Intervals of the codes that are shown; sums are in units of `unit`."""
        if not self.shown.size:
            return {}
        pool = self.pool[self.inside]
        size = self.pooled.shape[1]
        used = np.bincount(pool, minlength=size) > 0
        pooled = self.pooled.T[used].astype(np.float64) * unit
        weights = np.bincount(pool, weights=weight, minlength=size)[used].astype(np.float64)
        bounds = mean_intervals(pooled, weights)
        if bounds is None:
            return {}
        low, high = bounds.tolist()
        return {int(code): (low[index], high[index]) for index, code in enumerate(self.shown)}

    def take_cells(self, some: slice) -> None:
        """Add the shares of some cells."""
        unit, code = self.cells.units[some], self.cells.codes[some].astype(np.int64)
        chosen = self.weight[unit] >= 0
        if not chosen.all():
            unit, code = unit[chosen], code[chosen]
        time = self.cells.time_ns[some][chosen]
        spared = self.cells.recoverable_ns[some][chosen]
        weight = self.weight[unit] * ONE
        scale = weight / self.cells.totals[unit]
        share = _whole(scale * time)
        np.add.at(self.share, code, share)
        np.add.at(self.spared, code, _whole(scale * spared))
        np.add.at(self.occurs, code, _whole(weight * (time > 0)))
        column = self.column[code]
        shown = column >= 0
        add_by_pool(self.pooled, column[shown], self.pool[unit[shown]], share[shown])


def _whole(values: Floats) -> Ints:
    return np.rint(values).astype(np.int64)
