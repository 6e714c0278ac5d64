"""Which causes a verdict names, in which order, and how sure they are."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from solscope.diagnose.causes import NONE, UNKNOWN
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.thresholds import Thresholds
from solscope.diagnose.verdict.judging import Verdict
from solscope.diagnose.verdict.ranking import NamedCause, Ranking, nothing, rank, unknown
from solscope.resample import succession
from solscope.text import as_percent


def ranking_of_tail(of_mean: Ranking, of_slow_steps: Ranking | None) -> Ranking:
    """The ranking that explains slow steps: their own, unless that of the whole run is surer.

    Slow steps are compared with others of the same run, without sensors. What holds for the whole
    run (graphs given up, a CPU quota) shows in the comparison of the runs alone. The two are not
    mixed, because one can rule out what the other names.
    """
    if of_slow_steps is None or _named_with(of_mean) > _named_with(of_slow_steps):
        return of_mean
    return replace(of_slow_steps, failed=of_mean.failed)


def _named_with(ranking: Ranking) -> float:
    """Confidence of the first cause; 0 when it is `unknown`."""
    return 0.0 if ranking.first.id == UNKNOWN else ranking.first.confidence


def causes_of(f: Findings, ranking: Ranking, verdict: Verdict) -> list[NamedCause]:
    """Causes of the verdict, in order."""
    if verdict == "no_change":
        text = (
            f"the mean step takes ×{f.outcome.ratio:.3f}; noise inside the normal run "
            f"±{as_percent(f.outcome.floor, 1)}, between starts of one program "
            f"±{as_percent(f.outcome.run_noise)}"
        )
        return [nothing([text, *_pace(f)], _sameness(f))]
    if verdict == "cannot_compare":
        return [unknown(1.0, ["too few steps to test anything"])]
    if verdict == "workload_changed" and (causes := _work_first(f, ranking)):
        return causes
    if verdict == "improvement":
        return _gone(f)
    return ranking.causes


def _work_first(f: Findings, ranking: Ranking) -> list[NamedCause]:
    """Causes with those of the workload first; empty when there are none.

    A run that is faster shows less work; how sure that is tells the comparison from the other side.
    """
    named = ranking.causes
    work = {c.id: c for c in (*named, *ranking.hidden) if c.family == "workload"}
    back = _gone(f) if f.outcome.ratio < 1 else []
    if any(c.family == "workload" for c in back):
        named = back
        for cause in (c for c in back if c.family == "workload"):
            seen = work.get(cause.id, cause)
            work[cause.id] = msgspec.structs.replace(seen, confidence=cause.confidence)
    if not work:
        return []
    return _normalized([*work.values(), *(c for c in named if c.family != "workload")])


def less_sure(f: Findings, causes: list[NamedCause]) -> list[NamedCause]:
    """The causes of slow steps that may be an accident; what they lose goes to `unknown`."""
    weaker = [
        msgspec.structs.replace(c, confidence=f.limits.few_slow_steps * c.confidence)
        for c in causes
        if c.id != UNKNOWN
    ]
    rest = 1.0 - sum(c.confidence for c in weaker)
    text = f"the slow steps are too few for a test of their number (p = {f.tails.p:.2f})"
    return sorted([*weaker, unknown(rest, [text])], key=lambda cause: -cause.confidence)


def no_surer(causes: list[NamedCause], limits: Thresholds) -> list[NamedCause]:
    """Causes that are no surer than the lab's known answers allow; the rest goes to `unknown`."""
    most = succession(limits.lab_right, limits.lab_right)
    first = causes[0] if causes else None
    if first is None or first.id in (UNKNOWN, NONE) or first.confidence <= most:
        return causes
    rest = [cause for cause in causes[1:] if cause.id != UNKNOWN]
    left = next((cause for cause in causes if cause.id == UNKNOWN), unknown(0.0))
    return [
        msgspec.structs.replace(first, confidence=most),
        *rest,
        msgspec.structs.replace(
            left, confidence=1.0 - most - sum(cause.confidence for cause in rest)
        ),
    ]


def hidden_causes(ranking: Ranking, causes: list[NamedCause]) -> list[NamedCause]:
    """Causes that fit the evidence and are not among those named."""
    named = {cause.id for cause in causes} | {UNKNOWN}
    return [c for c in (*ranking.causes, *ranking.hidden) if c.id not in named]


def _sameness(f: Findings) -> float:
    """How surely nothing changed: how much of the interval of the ratio is within the noise."""
    low, high = f.outcome.low, f.outcome.high
    if low is None or high is None:
        return 0.5
    noise = np.log1p(max(f.outcome.floor, f.outcome.run_noise))
    bounds = np.log([low, high])
    width = max(float(bounds[1] - bounds[0]), 1e-9)
    inside = min(noise, float(bounds[1])) - max(-noise, float(bounds[0]))
    most = 0.75 if f.tails.unclear else 0.99
    return float(min(most, max(0.5, inside / width)))


def _pace(f: Findings) -> list[str]:
    """How much the host's pace alone changes the step, where that is more than the noise."""
    if abs(f.host.paced_ratio - 1) <= f.outcome.floor:
        return []
    pace, step = f.host.pace, f.host.paced_ratio
    return [f"all host code takes ×{pace:.2f}, which alone makes the step ×{step:.3f}"]


def _gone(f: Findings) -> list[NamedCause]:
    """Why the abnormal run is the faster one: what slowed the normal run down, seen from there."""
    swapped = f.swapped
    if swapped is None:
        return [unknown(1.0)]
    return [
        c if c.id == UNKNOWN else msgspec.structs.replace(c, title=f"in the normal run: {c.title}")
        for c in rank(swapped).causes
    ]


def _normalized(causes: list[NamedCause]) -> list[NamedCause]:
    """Confidences that sum to 1, the first cause at least as likely as any other.

    A workload that is seen in shapes or shares is a fact, also where it explains nothing of the
    difference and was therefore not ranked.
    """
    most = max(c.confidence for c in causes)
    first = msgspec.structs.replace(causes[0], confidence=most)
    total = sum(c.confidence for c in (first, *causes[1:])) or 1.0
    return [
        msgspec.structs.replace(c, confidence=c.confidence / total) for c in (first, *causes[1:])
    ]
