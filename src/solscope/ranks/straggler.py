"""Which rank the others wait for, how much of a step that is, how sure, and why.

For every collective the last rank is charged with the time by which it came later than the next to
last: what the step would have been shorter, had this rank alone been in time. The start of a
recording is left out, for there ranks wait for one another's profilers, and so are steps that are
cut. The rank with the largest sum is the straggler when, in steps drawn again and again from those
recorded, its share of the step stays above `MATERIAL` and above `ALONE` of what all ranks are
charged with. That frequency is the confidence: a bootstrap over the steps of one recording, which
says nothing about the next recording. A run that nothing was done to can pass the thresholds: in
the lab 1 of 9 did, whose host really was late in that recording (`docs/explain/ranks.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MATERIAL = 0.15
"""Share of a step from which a rank's lateness counts; chosen on the lab's tune half."""
ALONE = 0.6
"""Share of all lateness that a straggler has."""
WANDERS = 0.2
"""Share of a step that all ranks together cost from which a straggler wanders."""
SURE = 0.8
"""A rank is named from this confidence on."""
DRAWS = 2000
LEAST_STEPS = 3


@dataclass(frozen=True)
class Charge:
    """What each rank's lateness cost, by step."""

    steps: NDArray[np.int64]
    cost: Floats
    """By step and rank, ns."""
    length: Floats
    """Length of each step, ns."""


class Suspect(msgspec.Struct, frozen=True):
    """The rank that costs most, and how sure it is that it stands out."""

    rank: int | None
    """Null when no rank stands out."""
    confidence: float
    """How sure that is: of the named rank, or of the rank that costs most where none is named."""
    step_share_pct: float | None
    """What that rank costs, of the step."""
    leader: int | None
    """The rank that costs most, named or not."""
    all_share_pct: float | None
    """What all ranks' lateness costs, of the step."""
    pattern: str
    """`persistent`, `wandering`, or `none`."""
    steps: list[int]
    """Steps in which that rank costs most, and a material share."""
    reason: str | None
    """Why no rank can be named, where it is for want of data."""


def find_suspect(charge: Charge, ranks: tuple[int, ...]) -> Suspect:
    """The rank that the others wait for, if one stands out."""
    count = charge.steps.size
    if count < LEAST_STEPS or not charge.cost.size or charge.length.sum() <= 0:
        why = f"only {count} whole steps after the first" if count < LEAST_STEPS else "no waiting"
        return Suspect(None, 0.0, None, None, None, "none", [], why)
    total = charge.cost.sum(0)
    at = int(np.argmax(total))
    share = total / charge.length.sum()
    confidence = _confidence(charge, at)
    everyone = float(share.sum())
    leads = charge.cost[:, at] >= np.maximum(charge.cost.max(1), MATERIAL * charge.length)
    led = [int(step) for step in charge.steps[leads]]
    named = confidence >= SURE
    return Suspect(
        rank=ranks[at] if named else None,
        confidence=round(confidence, 3),
        step_share_pct=100.0 * float(share[at]),
        leader=ranks[at],
        all_share_pct=100.0 * everyone,
        pattern="persistent" if named else "wandering" if _wanders(charge) else "none",
        steps=led,
        reason=None,
    )


def _confidence(charge: Charge, at: int) -> float:
    """How often a rank stands out when the steps are drawn again."""
    draw = np.random.default_rng(20240607)
    count = charge.steps.size
    # How often each step is drawn: much smaller than the steps drawn, by draw, step and rank.
    weights = draw.multinomial(count, np.full(count, 1 / count), DRAWS).astype(np.float64)
    cost, length = weights @ charge.cost, weights @ charge.length
    material = cost[:, at] >= MATERIAL * length
    alone = cost[:, at] >= ALONE * cost.sum(1)
    return float((material & alone).mean())


def _wanders(charge: Charge) -> bool:
    """Whether in each step one rank costs much, but not always the same."""
    whole = charge.cost.sum(1)
    if whole.sum() < WANDERS * charge.length.sum():
        return False
    most = charge.cost.max(1).sum() / max(1.0, whole.sum())
    return bool(most >= ALONE and np.unique(np.argmax(charge.cost, axis=1)).size > 1)
