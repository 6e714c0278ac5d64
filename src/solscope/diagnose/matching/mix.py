"""How often each phase occurs, and whether another share of it can be chance.

A recording is a window. Two windows of one program hold other shares of a phase by chance, which
Fisher's exact test tells; and where phases come in bursts, by more than that. How much more, the
run shows itself: the share in windows of half its length, moved along it. A change is sure only
beyond both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solscope.diagnose.statistics.significance import fisher_p
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds


@dataclass(frozen=True)
class Share:
    """The share of a phase among the steps of both runs."""

    normal: float
    abnormal: float
    within: float
    """How much it differs between halves of one run, in the run where it differs more."""
    p: float
    """Probability of so unlike shares by chance."""
    chance: float
    """Limit of `p` below which the difference is significant."""

    @property
    def shift(self) -> float:
        """By how much it changed, either way."""
        return abs(self.abnormal - self.normal)

    @property
    def sure(self) -> bool:
        """True when neither chance nor bursts can make the shift."""
        return self.p < self.chance and self.shift > self.within


Phase = str | None


def shares(
    normal: Sequence[Phase], abnormal: Sequence[Phase], limits: Thresholds = THRESHOLDS
) -> dict[Phase, Share]:
    """Shares of all phases; each sequence has the phases of a run's steps in their order."""
    out = {}
    for phase in dict.fromkeys([*normal, *abnormal]):
        runs = [np.array([p == phase for p in run], dtype=bool) for run in (normal, abnormal)]
        parts = [float(flags.mean()) if flags.size else 0.0 for flags in runs]
        counts = [(int(flags.sum()), flags.size) for flags in runs]
        within = max(_between_halves(flags) for flags in runs)
        p = fisher_p(*counts[0], *counts[1])
        out[phase] = Share(parts[0], parts[1], within, p, limits.mix_p)
    return out


def _between_halves(flags: npt.NDArray[np.bool_]) -> float:
    """Range of the share in windows of half the run."""
    length = max(1, flags.size // 2)
    if not flags.size:
        return 0.0
    sums = np.convolve(flags, np.ones(length), mode="valid")
    return float((sums.max() - sums.min()) / length)
