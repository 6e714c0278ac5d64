"""Quantities of two runs, side by side, and the means over compared steps that give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from solscope.diagnose.matching.units import Units
from solscope.readers.packed import Observations


@dataclass(frozen=True)
class Pair:
    """One quantity on both sides."""

    normal: float
    abnormal: float
    delta: float = field(init=False)
    """Abnormal minus normal."""
    ratio: float = field(init=False)
    """Abnormal over normal; infinite for something from nothing, 1 for nothing at all."""

    def __post_init__(self) -> None:
        ratio = float("inf") if self.abnormal > 0 else 1.0
        if self.normal > 0:
            ratio = self.abnormal / self.normal
        object.__setattr__(self, "delta", self.abnormal - self.normal)
        object.__setattr__(self, "ratio", ratio)


@dataclass(frozen=True)
class KernelPair:
    """One class of kernels on both sides, per average step."""

    category: str
    name: str
    dtype: str | None
    calls: Pair
    ms: Pair
    per_call: Pair
    """Median time of one call, µs; 0 on a side without it."""
    same_grid: bool | None
    """Whether the usual launch grid is the same; null if one side is unknown."""
    blocks: Pair | None
    """Blocks of the usual grid."""

    @property
    def shared(self) -> bool:
        """True when both sides call it."""
        return self.calls.normal > 0 and self.calls.abnormal > 0


@dataclass(frozen=True)
class SectionPair:
    """One annotated section on both sides, ms per average step."""

    name: str
    calls: Pair
    own_ms: Pair
    python_ms: Pair
    """Time outside operators and runtime calls."""
    idle_ms: Pair
    """GPU time lost to it."""
    grown_ms: float
    """GPU time lost to it beyond what the host's pace explains."""


@dataclass(frozen=True)
class StepMeans:
    """The steps compared of both runs."""

    units: Units

    @property
    def runs(self) -> tuple[Observations, Observations]:
        """The normal and the abnormal run."""
        return self.units.normal.run, self.units.abnormal.run

    def mean(self, columns: Sequence[Iterable[float]]) -> Pair:
        """Mean per compared step, on both sides, of a list per run with a value per step."""
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            rows = np.concatenate([(s.normal, s.abnormal)[side] for s in self.units.strata])
            column = np.array(list(columns[side]), dtype=np.float64)
            out.append(scale * float(column[rows].mean()) if column.size else 0.0)
        return Pair(*out)

    def alike(self, columns: Sequence[Iterable[float]]) -> Pair:
        """The same for phases that both runs have, in the shares of the normal run."""
        strata = self.units.common
        total = sum(s.normal.size for s in strata)
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            column = np.array(list(columns[side]), dtype=np.float64)
            rows = [(s.normal, s.abnormal)[side] for s in strata]
            means = [float(column[index].mean()) if column.size else 0.0 for index in rows]
            shares = [s.normal.size / total for s in strata]
            out.append(scale * sum(w * m for w, m in zip(shares, means, strict=True)))
        return Pair(*out)
