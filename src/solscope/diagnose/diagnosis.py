"""The answer: what changed between a normal and an abnormal run, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from solscope.attribution import Attributed
from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.changes.counters import CounterChange
from solscope.diagnose.changes.decompose import Component
from solscope.diagnose.changes.tails import TailQuantile
from solscope.diagnose.evidence.work import (
    batch_differs,
    context_in_shapes,
    mix_differs,
    prompts_differ,
)
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import Side, Units, match
from solscope.diagnose.observe import observe
from solscope.diagnose.slow_rank import RankCause
from solscope.diagnose.statistics.significance import mann_whitney_p
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.diagnose.verdict.latent import Latent, latent_changes
from solscope.diagnose.verdict.outliers import Outliers, outliers_of, rank_slow_steps
from solscope.diagnose.verdict.ranking import Excluded, NamedCause, Ranking, nothing, rank, unknown
from solscope.diagnose.verdict.wording import sentence_of
from solscope.intervals import Int64s
from solscope.readers.packed import Observations
from solscope.text import as_percent

Scope = Literal["mean", "tail", "both"]
Verdict = Literal["regression", "improvement", "no_change", "workload_changed", "cannot_compare"]


class RunSummary(msgspec.Struct, frozen=True):
    """One side of the comparison."""

    path: str
    steps: int
    """Steps compared, including those of a phase missing in the other run if the mix changed."""
    p50_ms: float | None
    p99_ms: float | None
    mean_ms: float | None
    """Mean step time; the components of a side sum to it."""
    steps_in_recording: int
    dropped: dict[str, int]
    """Steps left out, by reason."""
    overhead_ms: float
    """Time per step that the profiler recorded as its own."""
    samples: int
    """Most samples of any sensor inside the steps."""


class Comparability(msgspec.Struct, frozen=True):
    """Whether the runs can be compared at all, and how well."""

    level: Literal["good", "weak", "refuse"]
    reasons: list[str]
    factor: float
    """Abnormal units in one normal unit; 1 when they are alike."""
    matched_pct: list[float]
    """Share of the fit steps that are compared like for like, in each run."""
    phases: dict[str, list[float]]
    """Share of each phase among the fit steps of both runs, in percent."""
    noise_floor_pct: float | None
    """How much two halves of the normal run differ (99 % quantile, as for runs of its length)."""
    run_noise_pct: float | None
    """How much two starts of the same program may differ; see docs/explain/diagnosis.md."""


class Band(msgspec.Struct, frozen=True):
    """What is normal, learned from several recordings of the same program."""

    runs: int
    """Recordings it was learned from."""
    mean_ms: float
    """Their mean step, phases weighted alike."""
    low_ms: float
    """Where 99 of 100 further runs lie (prediction interval of their logarithms)."""
    high_ms: float
    noise_pct: float
    """Half its width, at least 3 %: what another start may differ by."""
    run_ms: float
    """The same number of the run that is diagnosed."""
    z: float | None
    """Its distance from the mean, in standard deviations of a further run; null when the recordings
    of the baseline are equal and this one is not."""
    outside: int
    """Recordings that lie outside the band which the others give: 1 of 100 is expected."""
    typical: str
    """The recording that the run is compared with, step by step."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What changed and why."""

    verdict: Verdict
    sentence: str
    unit: str
    normal: RunSummary
    abnormal: RunSummary
    ratio: float | None
    """Mean step time, abnormal over normal, phases weighted as in the normal run."""
    ratio_ci95: list[float] | None
    """Null with too few steps."""
    typical_ratio: float | None
    """Hodges-Lehmann ratio of single steps, which rare long steps do not move."""
    delta_ms: float | None
    """Difference of `mean_ms`; the components sum to it."""
    mix_effect_ms: float | None
    """Part of it that comes from phases occurring more or less often; the rest is within them."""
    scope: Scope | None
    """What changed: the typical step (`mean`), rare slow steps (`tail`), or both; null when nothing
    did, or it cannot be told."""
    outliers: Outliers | None
    """Slow steps of the abnormal run; null when there are none."""
    tails: list[TailQuantile]
    """p90 and p99 of step time, tested."""
    components: list[Component]
    latent: list[Latent]
    causes: list[NamedCause]
    hidden_causes: list[NamedCause]
    """Causes that the evidence shows without the verdict needing them."""
    missing_evidence: list[str]
    """What was not recorded, and would tell causes apart."""
    excluded: list[Excluded]
    counters: list[CounterChange]
    comparability: Comparability
    warnings: list[str]
    next_step: str
    baseline: Band | None = None
    """With a baseline of many runs: what is normal, and where this run lies."""
    ranks: RankCause | None = None
    """For runs of many ranks: which one made the run slower; the rest is about that rank."""


def diagnose_runs(
    normal: Attributed | Observations,
    abnormal: Attributed | Observations,
    limits: Thresholds | None = None,
) -> Diagnosis:
    """Say what changed between two runs and why; profiles are observed first."""
    runs = [run if isinstance(run, Observations) else observe(run) for run in (normal, abnormal)]
    limits = limits or THRESHOLDS
    return diagnose_units(match(runs[0], runs[1], limits), limits)


def diagnose_units(
    units: Units, limits: Thresholds = THRESHOLDS, *, usual: bool = False
) -> Diagnosis:
    """The same for runs whose steps are matched, so that others can use the match as well.

    `usual` says that the mean step is known to be a usual one, from more runs than these two.
    """
    found = find(units, limits)
    return _refused(units, limits) if found is None else _diagnosed(found, usual=usual)


def _refused(units: Units, limits: Thresholds) -> Diagnosis:
    sides = [summary_of(side, _rows(units, at), None) for at, side in enumerate(_sides(units))]
    reasons = "; ".join(units.reasons)
    return Diagnosis(
        verdict="cannot_compare",
        sentence=f"These runs cannot be compared: {reasons}.",
        unit=units.name,
        normal=sides[0],
        abnormal=sides[1],
        ratio=None,
        ratio_ci95=None,
        typical_ratio=None,
        delta_ms=None,
        mix_effect_ms=None,
        scope=None,
        outliers=None,
        tails=[],
        components=[],
        latent=[],
        causes=[unknown(1.0, [reasons])],
        hidden_causes=[],
        missing_evidence=[],
        excluded=[],
        counters=[],
        comparability=_comparability(units, None),
        warnings=_warnings(units),
        next_step="record the same program on the same GPU under the same load, with at least "
        f"{limits.min_steps + 2} whole steps",
    )


def _diagnosed(f: Findings, *, usual: bool) -> Diagnosis:
    ranking = rank(f)
    verdict = judge(f, ranking, usual=usual)
    scope = scope_of(f, verdict)
    of_slow_steps = rank_slow_steps(f)
    if scope == "tail" and verdict == "regression":
        ranking = ranking_of_tail(ranking, of_slow_steps)
    causes = _causes(f, ranking, verdict)
    if scope == "tail" and f.tails.by_size:
        causes = _less_sure(f, causes)
    named = {cause.id for cause in causes} if verdict == "workload_changed" else set()
    latent = [item for item in latent_changes(f, ranking, verdict) if item.id not in named]
    units = f.units
    means = (f.parts.normal_ms, f.parts.abnormal_ms)
    sides = [
        summary_of(side, _rows(units, at), means[at], units.factor if at else 1.0)
        for at, side in enumerate(_sides(units))
    ]
    bounds = (f.outcome.low, f.outcome.high)
    return Diagnosis(
        verdict=verdict,
        sentence=sentence_of(f, verdict, scope, causes, latent),
        unit=units.name,
        normal=sides[0],
        abnormal=sides[1],
        ratio=f.outcome.ratio,
        ratio_ci95=None if None in bounds else [float(b) for b in bounds if b is not None],
        typical_ratio=f.outcome.typical,
        delta_ms=f.delta_ms,
        mix_effect_ms=f.parts.mix_ms,
        scope=scope,
        outliers=outliers_of(f, of_slow_steps),
        tails=f.tails.quantiles,
        components=f.parts.components,
        latent=latent,
        causes=causes,
        hidden_causes=_hidden(ranking, causes),
        missing_evidence=ranking.missing,
        excluded=ranking.excluded,
        counters=f.counters,
        comparability=_comparability(units, f),
        warnings=[*_warnings(units, f), *ranking.failed],
        next_step=causes[0].confirm,
    )


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


def judge(f: Findings, ranking: Ranking, *, usual: bool = False) -> Verdict:
    """The verdict: is the difference real, and is it the work that changed?

    With `usual`, the mean step has not changed, and only slow steps can make a difference.
    """
    if _work_changed(f, ranking):
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
    if verdict == "workload_changed":
        # Slow steps of other work are no change of the tail.
        mean = abs(f.delta_ms) > f.outcome.floor * f.parts.normal_ms
        return "mean" if moved or mean else None
    if tail:
        return "both" if moved else "tail"
    return "mean"


OPPOSITE: dict[Verdict, Verdict] = {"regression": "improvement", "improvement": "regression"}


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
    changed = _direction(f) != 0 or _driven(f.limits, ranking)
    return changed and ranking.first.family == "workload"


def _mix_counts(f: Findings) -> bool:
    """True if a different mix of phases alone moves the mean step; shares are exact."""
    return (
        bool(f.units.sure_moves) and abs(f.parts.mix_ms) > f.limits.min_effect * f.parts.normal_ms
    )


def _causes(f: Findings, ranking: Ranking, verdict: Verdict) -> list[NamedCause]:
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
    work = [c for c in (*ranking.causes, *ranking.hidden) if c.family == "workload"]
    if verdict == "workload_changed" and work:
        rest = [c for c in ranking.causes if c.family != "workload"]
        return _normalized([*work, *rest])
    if verdict == "improvement":
        return _gone(f)
    return ranking.causes


def _less_sure(f: Findings, causes: list[NamedCause]) -> list[NamedCause]:
    """The causes of slow steps that may be an accident; what they lose goes to `unknown`."""
    kept = [
        msgspec.structs.replace(c, confidence=f.limits.few_slow_steps * c.confidence)
        for c in causes
        if c.id != UNKNOWN
    ]
    rest = 1.0 - sum(c.confidence for c in kept)
    text = f"the slow steps are too few for a test of their number (p = {f.tails.p:.2f})"
    return sorted([*kept, unknown(rest, [text])], key=lambda cause: -cause.confidence)


def _hidden(ranking: Ranking, causes: list[NamedCause]) -> list[NamedCause]:
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
    """What the host's pace alone makes of the step, where that is more than the noise."""
    if abs(f.host.paced_ratio - 1) <= f.outcome.floor:
        return []
    pace, step = f.host.pace, f.host.paced_ratio
    return [f"all host code takes ×{pace:.2f}, which alone makes the step ×{step:.3f}"]


def _gone(f: Findings) -> list[NamedCause]:
    """Why the abnormal run is the faster one: what slowed the normal run down, seen from there."""
    found = f.swapped
    if found is None:
        return [unknown(1.0)]
    return [
        c if c.id == UNKNOWN else msgspec.structs.replace(c, title=f"in the normal run: {c.title}")
        for c in rank(found).causes
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


def _sides(units: Units) -> tuple[Side, Side]:
    return units.normal, units.abnormal


def _rows(units: Units, at: int) -> Int64s:
    parts = [(s.normal, s.abnormal)[at] for s in units.strata]
    return np.concatenate([np.empty(0, np.int64), *parts])


def summary_of(
    side: Side,
    rows: Int64s,
    mean_ms: float | None,
    factor: float = 1.0,
) -> RunSummary:
    """One side, with its steps as multiples of `factor`."""
    values = factor * side.wall[rows] / 1e6
    known = values.size > 0
    steps = max(1, len(side.run.steps))
    return RunSummary(
        path=side.run.run.name,
        steps=int(values.size),
        p50_ms=float(np.quantile(values, 0.5)) if known else None,
        p99_ms=float(np.quantile(values, 0.99)) if known else None,
        mean_ms=mean_ms,
        steps_in_recording=len(side.run.steps),
        dropped=side.dropped,
        overhead_ms=side.run.run.overhead_ns / steps / 1e6,
        samples=max((c.n for c in side.run.counters), default=0),
    )


def _comparability(units: Units, f: Findings | None) -> Comparability:
    return Comparability(
        level=units.comparable,
        reasons=units.reasons,
        factor=units.factor,
        matched_pct=[100 * share for share in units.matched],
        phases={
            phase or "unnamed": [100 * share.normal, 100 * share.abnormal]
            for phase, share in units.mix.items()
        },
        noise_floor_pct=None if units.noise is None else 100 * units.noise,
        run_noise_pct=None if f is None else 100 * f.outcome.run_noise,
    )


def _warnings(units: Units, f: Findings | None = None) -> list[str]:
    out = []
    for label, side in zip(("normal", "abnormal"), _sides(units), strict=True):
        run = side.run.run
        out += [f"{label}: {text}" for text in run.warnings]
        if not side.run.counters:
            out.append(
                f"{label}: no sensor samples within its steps; causes that only sensors "
                "tell apart stay open"
            )
        if run.stacks:
            out.append(f"{label}: Python frames were recorded, which slows the host down")
        if run.processes > 1 or run.devices > 1:
            out.append(
                f"{label}: {run.processes} processes and {run.devices} GPUs; the first "
                "process and its busiest GPU are compared"
            )
    if f is not None:
        if not any(s.tested for s in units.strata):
            sizes = ", ".join(f"{s.normal.size}/{s.abnormal.size}" for s in units.common)
            out.append(f"not tested: too few steps (n = {sizes})")
        untested = [c.name for c in f.counters if c.state == "not_tested"]
        if untested:
            names = ", ".join(dict.fromkeys(untested))
            out.append(f"not tested, too few samples within the steps: {names}")
    return out
