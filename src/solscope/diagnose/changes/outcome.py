"""How much slower the abnormal run is, like for like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solscope.diagnose.changes.decompose import Decomposition
from solscope.diagnose.matching.units import Units
from solscope.diagnose.statistics.two_samples import hodges_lehmann_ratio
from solscope.diagnose.thresholds import Thresholds
from solscope.resample import Floats, weighted_ratio


@dataclass(frozen=True)
class Outcome:
    """How much slower, like for like: phases weighted as in the normal run."""

    ratio: float
    low: float | None
    """95 % interval over steps; null with too few steps."""
    high: float | None
    typical: float | None
    """Hodges-Lehmann ratio of single steps, which rare long steps do not move."""
    floor: float
    """Change that noise inside the normal run can make, as a fraction."""
    run_noise: float
    """Change that another start of the same program can make, as a fraction."""


def outcome_of(units: Units, parts: Decomposition, limits: Thresholds) -> Outcome:
    """The ratio of step times over phases that both runs have, and the noise around it."""
    tested = any(s.tested for s in units.strata)
    strata = [s for s in units.common if s.tested or not tested]
    before = [units.normal.wall[s.normal] for s in strata]
    after = [units.factor * units.abnormal.wall[s.abnormal] for s in strata]
    total = sum(values.size for values in before)
    weights = [values.size / total for values in before]
    value, low, high = weighted_ratio(before, after, weights)
    if all(np.array_equal(b, a) for b, a in zip(before, after, strict=True)):
        low = high = value
    waiting = sum(parts.normal_by_family[f] for f in ("host", "sync", "alloc", "gc", "io"))
    bound = parts.normal_ms > 0 and waiting / parts.normal_ms >= limits.host_bound
    return Outcome(
        ratio=value,
        low=low if tested else None,
        high=high if tested else None,
        typical=_typical(before, after, weights),
        floor=max(limits.min_effect, units.noise or 0.0),
        run_noise=limits.host_noise if bound else limits.gpu_noise,
    )


def _typical(before: list[Floats], after: list[Floats], weights: list[float]) -> float | None:
    ratios = [hodges_lehmann_ratio(b, a) for b, a in zip(before, after, strict=True)]
    weighted = [(r, w) for r, w in zip(ratios, weights, strict=True) if r is not None]
    if not weighted:
        return None
    total = sum(w for _, w in weighted)
    return float(np.exp(sum(w * np.log(r) for r, w in weighted) / total))
