"""The answer: what changed between a normal and an abnormal run, and why."""

from __future__ import annotations

from typing import Annotated

import msgspec

from solscope.attribution import Attributed
from solscope.diagnose.changes.counters import CounterChange
from solscope.diagnose.changes.decompose import Component
from solscope.diagnose.changes.tails import TailQuantile
from solscope.diagnose.compared import (
    Comparability,
    RunSummary,
    comparability_of,
    figures_of,
    summaries_of,
    warnings_of,
)
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import Units, match
from solscope.diagnose.observe import observe
from solscope.diagnose.slow_rank import RankCause
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.diagnose.verdict.judging import Scope, Verdict, judge, scope_of
from solscope.diagnose.verdict.latent import Latent, latent_changes
from solscope.diagnose.verdict.naming import (
    causes_of,
    hidden_causes,
    less_sure,
    no_surer,
    ranking_of_tail,
)
from solscope.diagnose.verdict.outliers import (
    Outliers,
    outliers_of,
    rank_slow_steps,
    with_explained_tail,
)
from solscope.diagnose.verdict.ranking import Excluded, NamedCause, rank, unknown
from solscope.diagnose.verdict.wording import reason_of, sentence_of
from solscope.readers.packed import Observations
from solscope.views.verdict import Figure


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

    verdict: Annotated[
        Verdict, msgspec.Meta(description="How the abnormal run differs from the normal one.")
    ]
    sentence: str
    figures: list[Figure]
    """Of the sentence: a step of each run, and the ratio."""
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
    did, or it is unclear."""
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
    """What is not known, and would tell causes apart."""
    excluded: list[Excluded]
    counters: list[CounterChange]
    comparability: Comparability
    warnings: list[str]
    next_step: str
    baseline: Band | None = None
    """With a baseline of many runs: what is normal, and where this run lies."""
    ranks: RankCause | None = None
    """For runs of many ranks: which one made the run slower; the rest is about that rank."""
    why: str | None = None
    """Of a regression, or where the workload changed: the cause in words, as in the sentence, and
    how sure it is; of no change, why a ratio is none; null for every other verdict."""
    settled: bool = False
    """Whether `why` names what no other cause comes close to."""


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
    findings = find(units, limits)
    return _refused(units, limits) if findings is None else _diagnosed(findings, usual=usual)


def _refused(units: Units, limits: Thresholds) -> Diagnosis:
    normal, abnormal = summaries_of(units, None)
    reasons = "; ".join(units.reasons)
    return Diagnosis(
        verdict="cannot_compare",
        sentence=f"These runs cannot be compared: {reasons}.",
        figures=figures_of(units, None, [normal, abnormal]),
        unit=units.name,
        normal=normal,
        abnormal=abnormal,
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
        comparability=comparability_of(units, None),
        warnings=warnings_of(units),
        next_step="record the same program on the same GPU under the same load, with at least "
        f"{limits.min_steps + 2} whole steps",
    )


def _diagnosed(f: Findings, *, usual: bool) -> Diagnosis:
    ranking = rank(f)
    of_slow_steps = rank_slow_steps(f)
    f = with_explained_tail(f, of_slow_steps)
    verdict = judge(f, ranking, usual=usual)
    scope = scope_of(f, verdict)
    if scope == "tail" and verdict == "regression":
        ranking = ranking_of_tail(ranking, of_slow_steps)
    causes = causes_of(f, ranking, verdict)
    if scope == "tail" and (f.tails.by_size or f.tails.by_cause):
        causes = less_sure(f, causes)
    causes = no_surer(causes, f.limits)
    named = {cause.id for cause in causes} if verdict == "workload_changed" else set()
    latent = [item for item in latent_changes(f, ranking, verdict) if item.id not in named]
    units = f.units
    normal, abnormal = summaries_of(units, f)
    bounds = (f.outcome.low, f.outcome.high)
    reason = reason_of(f, verdict, causes)
    return Diagnosis(
        verdict=verdict,
        sentence=sentence_of(f, verdict, scope, causes, latent),
        figures=figures_of(units, f, [normal, abnormal]),
        unit=units.name,
        normal=normal,
        abnormal=abnormal,
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
        hidden_causes=hidden_causes(ranking, causes),
        missing_evidence=ranking.missing,
        excluded=ranking.excluded,
        counters=f.counters,
        comparability=comparability_of(units, f),
        warnings=[*warnings_of(units, f), *ranking.failed],
        next_step=causes[0].confirm,
        why=None if reason is None else reason.text,
        settled=reason is not None and reason.settled,
    )
