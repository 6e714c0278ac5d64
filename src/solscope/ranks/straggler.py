"""Which rank the others wait for, how much of a step that is, how sure, and why.

For every collective the last rank is charged with the time by which it came later than the next to
last: what the step would have been shorter, had this rank alone been in time. The start of a
recording is left out, for there ranks wait for one another's profilers, and so are steps that are
cut. The rank with the largest sum is the straggler when, in steps drawn again and again from those
recorded, its share of the step stays above what healthy ranks cost for the same reason (`material`)
and above `ALONE` of what all ranks are charged with. Steps are drawn in blocks, since lateness
lasts for several steps. That frequency is the confidence. It is capped twice: by the number of
steps it was measured on, and by how often ranks named in the lab were the right ones
(`docs/explain/ranks.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from solscope.resample import block_weights, succession

Floats = NDArray[np.float64]

MATERIAL = 0.15
"""Share of a step from which a rank's lateness counts; chosen on the lab's tune half."""
HEALTHY = {"host": 0.27, "gpu": 0.05, "load": 0.05, "link": 0.05}
"""The largest share of a step that a rank cost which nothing was done to, by reason, among the 16
runs of the lab's tune half in which at most one rank was disturbed, rounded up. Processes that do
the same differ in when their hosts launch; their GPUs hardly differ."""
LAB_NAMED, LAB_RIGHT = 17, 17
"""Ranks that are named in both halves of the lab, and those of them that are the right ones."""
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
    known: bool = True
    """Whether any collective of these steps could be compared between ranks; if not, costs of 0 say
    nothing."""


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


def leader(charge: Charge) -> int | None:
    """Position of the rank that costs the others most; null without enough steps, or waiting."""
    if charge.steps.size < LEAST_STEPS or not charge.cost.size or charge.length.sum() <= 0:
        return None
    if not charge.known:
        return None
    return int(np.argmax(charge.cost.sum(0)))


def material(why: str | None) -> float:
    """Share of a step from which a rank stands out that is late for this reason.

    Where the reason is not known it can be any, so the largest share of healthy ranks counts.
    """
    return max(MATERIAL, healthy(why))


def healthy(why: str | None) -> float:
    """Share of a step that ranks cost at most which nothing was done to."""
    return HEALTHY.get(why or "", max(HEALTHY.values()))


def find_suspect(charge: Charge, ranks: tuple[int, ...], why: str | None) -> Suspect:
    """The rank that the others wait for, if one stands out.

    `why` is the reason for which the rank that costs most is late, as `solscope.ranks.why` has it.
    """
    count = charge.steps.size
    rank_index = leader(charge)
    if rank_index is None:
        few = f"only {count} whole steps after the first" if count < LEAST_STEPS else "no waiting"
        if count >= LEAST_STEPS and not charge.known:
            few = "no collective could be compared between ranks"
        return Suspect(None, 0.0, None, None, None, "none", [], few)
    share = charge.cost.sum(0) / charge.length.sum()
    confidence = _confidence(charge, rank_index, material(why))
    leads = charge.cost[:, rank_index] >= np.maximum(charge.cost.max(1), MATERIAL * charge.length)
    named = confidence >= SURE
    return Suspect(
        rank=ranks[rank_index] if named else None,
        confidence=round(confidence, 3),
        step_share_pct=100.0 * float(share[rank_index]),
        leader=ranks[rank_index],
        all_share_pct=100.0 * float(share.sum()),
        pattern="persistent" if named else "wandering" if _wanders(charge) else "none",
        steps=[int(step) for step in charge.steps[leads]],
        reason=None,
    )


def capped(frequency: float, steps: int) -> float:
    """A frequency over draws as a confidence: never surer than so few steps and recordings make."""
    return min(frequency, succession(steps, steps), succession(LAB_RIGHT, LAB_NAMED))


def _confidence(charge: Charge, rank_index: int, least: float) -> float:
    """How often a rank stands out when the steps are drawn again."""
    # How often each step is drawn: much smaller than the steps drawn, by draw, step and rank.
    weights = block_weights(charge.steps.size, DRAWS)
    cost, length = weights @ charge.cost, weights @ charge.length
    stands_out = cost[:, rank_index] >= least * length
    alone = cost[:, rank_index] >= ALONE * cost.sum(1)
    return capped(float((stands_out & alone).mean()), charge.steps.size)


def _wanders(charge: Charge) -> bool:
    """Whether in each step one rank costs much, but not always the same."""
    whole = charge.cost.sum(1)
    if (
        whole.sum() < WANDERS * charge.length.sum()
        or charge.cost.sum(0).max() >= ALONE * whole.sum()
    ):
        return False
    most = charge.cost.max(1).sum() / max(1.0, whole.sum())
    return bool(most >= ALONE and np.unique(np.argmax(charge.cost, axis=1)).size > 1)
