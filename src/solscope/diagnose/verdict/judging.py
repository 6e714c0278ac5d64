"""The verdict: is the difference real, is it the work that changed, typical steps or slow ones?"""

from __future__ import annotations

from typing import Literal

import numpy as np

from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.evidence.work import (
    batch_differs,
    context_in_shapes,
    mix_differs,
    prompts_differ,
)
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.statistics.significance import mann_whitney_p
from solscope.diagnose.thresholds import Thresholds
from solscope.diagnose.verdict.ranking import Ranking, rank
from solscope.intervals import Int64s

Scope = Literal["mean", "tail", "both"]


Verdict = Literal["regression", "improvement", "no_change", "workload_changed", "cannot_compare"]


OPPOSITE: dict[Verdict, Verdict] = {"regression": "improvement", "improvement": "regression"}


def judge(f: Findings, ranking: Ranking, *, usual: bool = False) -> Verdict:
    """The verdict: is the difference real, and is it the work that changed?

    With `usual`, the mean step has not changed, and only slow steps can make a difference.
    """
    other = f.swapped if f.outcome.ratio < 1 else None
    # Less work is more of it, seen from the other run.
    if _work_changed(f, ranking) or (other is not None and _work_changed(other, rank(other))):
        return "workload_changed"
    verdict = _judge_alike(f, ranking)
    if usual and verdict in OPPOSITE:
        verdict = "no_change"
    unsure = verdict in ("no_change", "cannot_compare")
    if unsure and _mix_counts(f):
        return "workload_changed"
    if verdict == "no_change" and f.tails.worse:
        return "regression"
    return "improvement" if verdict == "no_change" and f.tails.better else verdict


def scope_of(f: Findings, verdict: Verdict) -> Scope | None:
    """Whether the typical step changed, or rare slow steps did, or both."""
    if verdict in ("no_change", "cannot_compare"):
        return None
    tail = f.tails.better if verdict == "improvement" else f.tails.worse
    # Slow steps themselves do not make the typical step slower.
    typical = f.tails.usual_ratio
    moved = typical is None or abs(np.log(typical)) > np.log1p(f.outcome.floor)
    if typical is not None and verdict in OPPOSITE:
        # A typical step that went the other way is no part of it.
        moved = moved and (typical > 1) == (verdict == "regression")
    if verdict == "workload_changed":
        # Slow steps of other work are no change of the tail.
        mean = abs(f.delta_ms) > f.outcome.floor * f.parts.normal_ms
        return "mean" if moved or mean else None
    if tail:
        return "both" if moved else "tail"
    return "mean"


def _judge_alike(f: Findings, ranking: Ranking) -> Verdict:
    """The verdict on steps of the same phases, in the same shares.

    A faster run is judged from the other side, so that exchanging the runs exchanges the verdict:
    what is evidence for a regression is evidence for its end.
    """
    if f.outcome.ratio >= 1 or f.swapped is None:
        return _judge_slower(f, ranking)
    verdict = _judge_slower(f.swapped, rank(f.swapped))
    return OPPOSITE.get(verdict, verdict)


def _judge_slower(f: Findings, ranking: Ranking) -> Verdict:
    if f.outcome.low is None:
        return "cannot_compare"
    direction = _direction(f)
    slower = f.outcome.ratio > 1 + f.limits.min_effect
    if direction == 0 and slower and _driven(f.limits, ranking) and _surely(f, ranking):
        return "regression"
    if direction == 0:
        return "no_change"
    # What is left of the ratio when the host had kept its pace.
    rest = np.log(f.outcome.ratio / f.host.paced_ratio)
    noise = np.log1p(f.outcome.run_noise)
    small = min(abs(np.log(f.outcome.ratio)), abs(rest)) <= noise
    if small and not (direction > 0 and _driven(f.limits, ranking)) and not _by_gpu(f, direction):
        return "no_change"
    return "regression" if direction > 0 else "improvement"


def _by_gpu(f: Findings, direction: int) -> bool:
    """True if the time of kernels and copies alone changed by more than they differ between starts.

    The host's pace, which makes two starts of one program differ, does not reach them.
    """
    own = [c for c in f.parts.components if c.family in ("compute", "comm", "memcpy")]
    surely = sum(
        c.delta_ms for c in own if c.state == "changed" and direction * c.delta_ms > 0
    ) + sum(c.delta_ms for c in own if direction * c.delta_ms < 0)
    noise = max(f.limits.gpu_noise, f.limits.min_effect)
    return direction * surely > noise * f.parts.normal_ms


def _direction(f: Findings) -> int:
    """1 if significantly slower, -1 if significantly faster, by the mean or the typical step."""
    outcome = f.outcome
    if outcome.low is None or outcome.high is None:
        return 0
    if outcome.low > 1 + outcome.floor:
        return 1
    if outcome.high < 1 / (1 + outcome.floor):
        return -1
    typical = outcome.typical
    steady = all(_shifted(f, s.normal, s.abnormal) for s in f.units.strata if s.tested)
    if typical is None or not steady:
        return 0
    if typical > 1 + outcome.floor and outcome.high > 1:
        return 1
    return -1 if typical < 1 / (1 + outcome.floor) and outcome.low < 1 else 0


def _shifted(f: Findings, normal: Int64s, abnormal: Int64s) -> bool:
    """True if single steps differ significantly."""
    before = f.units.normal.wall[normal]
    after = f.units.factor * f.units.abnormal.wall[abnormal]
    return mann_whitney_p(before, after) < f.limits.step_shift_p


def _driven(limits: Thresholds, ranking: Ranking) -> bool:
    """True when the first cause is much likelier than `unknown`."""
    first = ranking.first
    rest = next(c.confidence for c in ranking.causes if c.id == UNKNOWN)
    return first.id != UNKNOWN and first.confidence >= limits.driven * rest


def _surely(f: Findings, ranking: Ranking) -> bool:
    """True if components that changed significantly make up a relevant part of the step.

    The whole step may be too noisy to test while one part of it is not.
    """
    grown = [c.delta_ms for c in f.parts.components if (c.low_ms or 0) > 0]
    explained = (ranking.first.explains_pct or 0.0) >= 100 * f.limits.most
    return explained and sum(grown) >= f.limits.min_effect * f.parts.normal_ms


def _work_changed(f: Findings, ranking: Ranking) -> bool:
    if batch_differs(f).holds or context_in_shapes(f).holds or prompts_differ(f).holds:
        return True
    total = abs(f.delta_ms)
    noise = f.outcome.floor * f.parts.normal_ms
    if mix_differs(f).holds and total > noise:
        return abs(f.parts.mix_ms) >= f.limits.mix_share * total
    if f.outcome.low is None:
        return False
    changed = _direction(f) != 0 or _driven(f.limits, ranking)
    return changed and ranking.first.family == "workload"


def _mix_counts(f: Findings) -> bool:
    """True if a different mix of phases alone moves the mean step; shares are exact."""
    return (
        bool(f.units.sure_moves) and abs(f.parts.mix_ms) > f.limits.min_effect * f.parts.normal_ms
    )
