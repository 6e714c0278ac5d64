"""Means over the steps compared: what turns per-step lists into one number per side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from solscope.diagnose.findings.pairs import Pair
from solscope.diagnose.matching.units import Units
from solscope.readers.packed import Observations


@dataclass(frozen=True)
class StepMeans:
    """The steps compared of both runs."""

    units: Units

    @property
    def runs(self) -> tuple[Observations, Observations]:
        """The normal and the abnormal run."""
        return self.units.normal.run, self.units.abnormal.run

    def mean(self, values: Callable[[Observations], Iterable[float]]) -> Pair:
        """Mean per compared step of a per-step list, on both sides."""
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            rows = np.concatenate([(s.normal, s.abnormal)[side] for s in self.units.strata])
            column = np.array(list(values(self.runs[side])), dtype=np.float64)
            out.append(scale * float(column[rows].mean()) if column.size else 0.0)
        return Pair(*out)

    def alike(self, values: Callable[[Observations], Iterable[float]]) -> Pair:
        """The same for phases that both runs have, in the shares of the normal run."""
        strata = self.units.common
        total = sum(s.normal.size for s in strata)
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            column = np.array(list(values(self.runs[side])), dtype=np.float64)
            rows = [(s.normal, s.abnormal)[side] for s in strata]
            means = [float(column[at].mean()) if column.size else 0.0 for at in rows]
            shares = [s.normal.size / total for s in strata]
            out.append(scale * sum(w * m for w, m in zip(shares, means, strict=True)))
        return Pair(*out)
