"""Quantities of two runs, side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """One quantity on both sides."""

    normal: float
    abnormal: float

    @property
    def delta(self) -> float:
        """Abnormal minus normal."""
        return self.abnormal - self.normal

    @property
    def ratio(self) -> float:
        """Abnormal over normal; infinite for something from nothing, 1 for nothing at all."""
        if self.normal > 0:
            return self.abnormal / self.normal
        return float("inf") if self.abnormal > 0 else 1.0


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
