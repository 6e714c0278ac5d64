"""Which rank made a run of many ranks slower than another, and why.

A rank is the culprit when its late arrivals cost more per step than in the normal run, and that
increase is a larger share of the step than healthy ranks cost for the same reason, explains at
least half of what the step got longer, and is most of what all ranks cost more. How sure that is
comes from blocks of steps drawn again from both runs. Without such a rank, longer transfers of the
same messages point to the link.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.analysis import Analysis
from solscope.ranks.straggler import ALONE, capped, healthy
from solscope.resample import block_weights

EXPLAINS = 0.5
"""Share of the slowdown that a culprit, or the link, explains."""
SLOWER = 1.05
"""A step that got longer by less than this is not explained."""
SURE = 0.8
DRAWS = 2000
LEAST_STEPS = 3


class RankCause(msgspec.Struct, frozen=True):
    """The rank that made a run slower."""

    culprit: int | None
    """Null when no single rank is to blame."""
    confidence: float
    """How often, in steps drawn again, this rank explains the slowdown; of the rank that explains
    most where none is named."""
    why: str
    """`gpu`, `host`, `load`, `link` or `unknown`."""
    step_ratio: float | None
    """Mean step, abnormal over normal."""
    cost_ms: float | None
    """What the rank's late arrivals cost per step, beyond the normal run."""
    evidence: list[str]
    runs: list[str] = []
    """Names of the normal and the abnormal run."""
    compared: int | None = None
    """The rank whose profiles were diagnosed: the culprit, else the one that costs most."""


def blame(normal: Analysis, abnormal: Analysis) -> RankCause:
    """The rank that made `abnormal` slower than `normal`, if there is one."""
    few = min(normal.steps.size, abnormal.steps.size) < LEAST_STEPS
    if few or not normal.charge.length.sum() or not abnormal.charge.length.sum():
        return RankCause(None, 0.0, "unknown", None, None, ["too few whole steps in a run"])
    before, after = (run.charge.length.mean() for run in (normal, abnormal))
    ratio = float(after / before)
    more = abnormal.charge.cost.mean(0) - _of_same_ranks(normal, abnormal)
    rank_index = int(np.argmax(more))
    cost = float(more[rank_index]) / 1e6
    rank = abnormal.matched.ranks[rank_index]
    # The reason was looked for at the rank that costs most, which need not be this one.
    stated = abnormal.why if abnormal.suspect.leader == rank else None
    why = "unknown" if stated is None else stated.why
    confidence = _confidence(normal, abnormal, rank_index, healthy(why))
    if confidence >= SURE:
        evidence = [] if stated is None else list(stated.evidence)
        return RankCause(rank, round(confidence, 3), why, ratio, cost, evidence)
    if ratio < SLOWER:
        return RankCause(None, round(confidence, 3), "unknown", ratio, cost, [])
    why, evidence = _without_culprit(normal, abnormal, after - before)
    return RankCause(None, round(confidence, 3), why, ratio, cost, evidence)


def _of_same_ranks(normal: Analysis, abnormal: Analysis) -> NDArray[np.float64]:
    """Mean cost of the same ranks in the normal run; the mean of all where a rank is not there."""
    costs = normal.charge.cost.mean(0)
    normal_costs = dict(zip(normal.matched.ranks, costs, strict=True))
    return np.array([normal_costs.get(rank, costs.mean()) for rank in abnormal.matched.ranks])


def _confidence(normal: Analysis, abnormal: Analysis, rank_index: int, least: float) -> float:
    """How often a rank explains the slowdown when the steps of both runs are drawn again."""
    rank = abnormal.matched.ranks[rank_index]
    same = normal.matched.ranks.index(rank) if rank in normal.matched.ranks else None
    own = normal.charge.cost.mean(1) if same is None else normal.charge.cost[:, same]
    sides = []
    for seed, (charge, cost) in enumerate(
        ((normal.charge, own), (abnormal.charge, abnormal.charge.cost[:, rank_index]))
    ):
        weights = block_weights(charge.steps.size, DRAWS, seed)
        weights /= weights.sum(1, keepdims=True)
        sides.append([weights @ values for values in (charge.length, cost, charge.cost.sum(1))])
    slower, more, all_more = (after - before for before, after in zip(*sides, strict=True))
    explains = (slower > (SLOWER - 1) * sides[0][0]) & (more >= EXPLAINS * slower)
    stands_out = (more >= least * sides[1][0]) & (more >= ALONE * all_more)
    steps = min(normal.steps.size, abnormal.steps.size)
    return capped(float((explains & stands_out).mean()), steps)


def _without_culprit(normal: Analysis, abnormal: Analysis, slower: float) -> tuple[str, list[str]]:
    """What else may explain the slowdown: transfers of the same messages, or ranks by turns."""
    before, after = _transfers(normal), _transfers(abnormal)
    both = before.join(after, on=("kind", "bytes"), suffix="_after")
    more = (both["each_after"] - both["each"]) * both["calls_after"]
    longer = float(more.sum()) / max(1, abnormal.steps.size)
    if longer >= EXPLAINS * slower:
        text = f"transfers of the same messages take longer: {longer / 1e6:.2f} ms per step"
        return "link", [text]
    late = abnormal.charge.cost.sum(1).mean() - normal.charge.cost.sum(1).mean()
    if late >= EXPLAINS * slower:
        why = "unknown" if abnormal.why is None else abnormal.why.why
        text = f"ranks are late by turns: {late / 1e6:.2f} ms per step more than in the normal run"
        return why, [text]
    return "unknown", []


def _transfers(analysis: Analysis) -> pl.DataFrame:
    """Mean transfer by kind and message size, ns."""
    counted = analysis.counted
    if not counted.any():
        columns = {"kind": pl.String, "bytes": pl.Int64, "each": pl.Float64, "calls": pl.UInt32}
        return pl.DataFrame(schema=columns)
    each = np.nanmean(analysis.split.transfer[counted], axis=1)
    table = analysis.matched.table.filter(pl.Series(counted)).with_columns(each=each)
    return table.group_by("kind", "bytes").agg(pl.col("each").mean(), pl.len().alias("calls"))
