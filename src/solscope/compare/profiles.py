"""The same work on several platforms or versions, side by side.

Times are per step of the same phase and, with several GPUs, per GPU. Where steps cannot be compared
(a summary without a time line, no steps, no phase in common) totals of whole profiles stand beside
each other, marked as such. Profiles align by phase, role, category and catalog operator; kernel
names only say what one side has and the other has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import OUTLIER, StepBasis
from solscope.compare.parts import Difference, OneSided, Part, differences, one_sided, parts_by
from solscope.compare.units import (
    ComparedPhase,
    Unit,
    labelled,
    phases_of,
    profile_unit,
    shared_phases,
    steps_unit,
)
from solscope.compare.verdict import Change, ComparisonVerdict, decisive, verdict_of
from solscope.compare.why import Explanation, explain
from solscope.errors import UsageError
from solscope.profile import ProfileWarning
from solscope.views.coverage import CoverageSummary, coverage
from solscope.views.percent import percent_of
from solscope.views.steps import LEAST_STEPS

UNLIKE = 1.05
"""Steps are called unlike when their mean requests or tokens differ by more than this factor."""


class Side(msgspec.Struct, frozen=True):
    """One of the profiles."""

    label: str
    path: str
    format: str
    devices: list[str]
    steps: int
    """Steps in the profile, whatever their phase."""
    cut: int
    """Steps that the profile shows only in part; they are left out."""
    compared_pct: float | None
    """Share of the profile's GPU time that the phases below hold."""
    coverage: CoverageSummary


class StepTimes(msgspec.Struct, frozen=True):
    """Steps of one phase in one profile, in ms."""

    count: int
    basis: StepBasis
    """These steps, and which ones were left out."""
    devices: int
    """GPUs that worked in these steps; what is not a time of the whole step is a mean over them."""
    time_ms: float
    """Step time, start to start: `mean_ms` + `gap_ms`; `mean_ms` = `gpu_ms` - `overlapped_ms` +
    `idle_ms`."""
    mean_ms: float
    """Mean from the first start to the last end on the GPU."""
    p50_ms: float
    """Quantiles of the same, over outliers as well; so are those of gaps."""
    p90_ms: float | None
    """Null with fewer than 10 steps; so is `gap_p90_ms`."""
    gap_ms: float
    """Mean gap up to the next step; 0 where none follows, negative where steps overlap."""
    gap_p50_ms: float | None
    gap_p90_ms: float | None
    gpu_ms: float
    """Durations of all GPU activities."""
    overlapped_ms: float
    """The part of it that overlaps another activity of the same GPU."""
    idle_ms: float
    """Idle inside the step."""
    busy_pct: float | None
    """Share of the step time in which a GPU is busy."""
    requests: float | None
    """Mean number of requests in a step, if annotations state it."""
    tokens: float | None


class PhaseComparison(ComparedPhase, frozen=True):
    """One phase; lists have an entry per profile."""

    steps: list[StepTimes | None]
    """Null for totals."""
    gpu_ns: list[int]
    """GPU time over all steps compared: the sum of `total_ns` of the parts, exactly."""
    gpu_ms: list[float]
    """The same per step and GPU."""
    categories: list[Part]
    operators: list[Part]
    """By catalog operator; kernels without a known operator are a separate part."""
    kernels: list[Part]
    """By short name, for totals of summaries only; else empty."""
    differences: list[Difference]
    only: list[OneSided]


class Comparison(msgspec.Struct, frozen=True):
    """Several profiles side by side."""

    verdict: ComparisonVerdict
    profiles: list[Side]
    phases: list[PhaseComparison]
    """What the verdict is about first."""
    left_out: list[str]
    """Phases not compared: not every profile has them, or another one was asked for."""
    warnings: list[ProfileWarning]


def compare_profiles(
    profiles: Sequence[Attributed], labels: Sequence[str], *, phase: str | None = None
) -> Comparison:
    """Put profiles side by side; differences are to the first one."""
    check_several(profiles)
    chosen = chosen_phases(profiles, labels, phase)
    if chosen:
        units = [[steps_unit(profile, p) for profile in profiles] for p in chosen]
    else:
        units = [[profile_unit(profile) for profile in profiles]]
    summaries = all(profile.profile.is_aggregate for profile in profiles)
    phases = dict.fromkeys(p for side in profiles for p in phases_of(side))
    sides = [
        _side(profile, label, [row[index] for row in units])
        for index, (profile, label) in enumerate(zip(profiles, labels, strict=True))
    ]
    compared = [
        _phase(p, row, labels, summaries) for p, row in zip(chosen or [phase], units, strict=True)
    ]
    told = decisive(sides, compared)
    return Comparison(
        verdict=verdict_of(sides, compared, _why(profiles, told)),
        profiles=sides,
        phases=sorted(compared, key=lambda one: told is not None and one is not told.phase),
        left_out=[p or "(not known)" for p in phases if chosen and p not in chosen],
        warnings=list(comparison_warnings(profiles, labels, phase, chosen, units)),
    )


def _why(profiles: Sequence[Attributed], told: Change | None) -> Explanation | None:
    """Why the steps of the verdict differ; null where they do not, or nobody can tell."""
    if told is None or not told.differ:
        return None
    first, other = profiles[0], profiles[told.profile_index]
    faster, slower = (other, first) if told.faster else (first, other)
    return explain(faster, slower, told.phase.phase, reverse=told.faster)


def check_several(profiles: Sequence[Attributed]) -> None:
    """Refuse to compare a profile with nothing."""
    if len(profiles) < 2:
        raise UsageError(
            f"{len(profiles)} profile given (a file named twice counts once); compare needs at "
            "least two"
        )


def chosen_phases(
    profiles: Sequence[Attributed], labels: Sequence[str], phase: str | None
) -> list[str | None]:
    """Phases to compare; none when only whole profiles can be."""
    shared = shared_phases(profiles)
    if phase is None:
        return shared
    if phase not in shared:
        has = [
            f"{label}: {', '.join(p or 'not known' for p in phases_of(profile)) or 'no steps'}"
            for profile, label in zip(profiles, labels, strict=True)
        ]
        raise UsageError(f"not every profile has whole steps of phase {phase} ({'; '.join(has)})")
    return [phase]


def _side(attributed: Attributed, label: str, units: Sequence[Unit]) -> Side:
    profile = attributed.profile
    total = int(attributed.activities["dur_ns"].sum()) + int(
        attributed.aggregates["total_ns"].sum()
    )
    total_ns = sum(unit.gpu_ns for unit in units)
    return Side(
        label=label,
        path=profile.path,
        format=profile.format,
        devices=[device.label for device in profile.metadata.devices],
        steps=attributed.steps.height,
        cut=int(attributed.steps["cut"].sum()),
        compared_pct=percent_of(total_ns, total),
        coverage=coverage(attributed),
    )


def _phase(
    phase: str | None, units: Sequence[Unit], labels: Sequence[str], summaries: bool
) -> PhaseComparison:
    return PhaseComparison(
        phase=phase,
        per="step" if units[0].busy_ns is not None else "profile",
        steps=[_step_times(unit) for unit in units],
        gpu_ns=[unit.gpu_ns for unit in units],
        gpu_ms=[unit.gpu_ns / unit.divisor / 1e6 for unit in units],
        categories=parts_by(units, "category"),
        operators=parts_by(units, "operator"),
        kernels=parts_by(units, "name") if summaries else [],
        differences=differences(units, labels),
        only=one_sided(units),
    )


def _step_times(unit: Unit) -> StepTimes | None:
    if unit.usual is None:
        return None
    extent = unit.steps["extent_ns"]
    every = unit.usual.with_outliers
    extents = every["end_ns"] - every["start_ns"]
    gaps = every["until_ns"] - every["end_ns"] if unit.steps["gap_ns"].count() else pl.Series()

    def mean(ns: int) -> float:
        return ns / unit.divisor / 1e6

    time_ms = int(extent.sum()) / unit.count / 1e6 + unit.gap_ms
    return StepTimes(
        count=unit.count,
        basis=unit.usual.basis,
        devices=unit.devices,
        time_ms=time_ms,
        mean_ms=int(extent.sum()) / unit.count / 1e6,
        p50_ms=_quantile(extents, 0.5) or 0.0,
        p90_ms=_quantile(extents, 0.9),
        gap_ms=unit.gap_ms,
        gap_p50_ms=_quantile(gaps, 0.5),
        gap_p90_ms=_quantile(gaps, 0.9),
        gpu_ms=mean(unit.gpu_ns),
        overlapped_ms=mean(unit.overlapped_ns),
        idle_ms=mean(unit.idle_ns),
        busy_pct=percent_of(mean(unit.gpu_ns - unit.overlapped_ns), time_ms),
        requests=_mean(unit.steps["requests"]),
        tokens=_mean(unit.steps["tokens"]),
    )


def _quantile(ns: pl.Series, q: float) -> float | None:
    value = None if ns.len() < LEAST_STEPS[q] else ns.quantile(q, "linear")
    return None if value is None else value / 1e6


def _mean(series: pl.Series) -> float | None:
    return None if series.null_count() == len(series) else float(series.sum()) / series.count()


def comparison_warnings(
    profiles: Sequence[Attributed],
    labels: Sequence[str],
    phase: str | None,
    chosen: Sequence[str | None],
    units: Sequence[Sequence[Unit]],
) -> Iterator[ProfileWarning]:
    """What limits a comparison: of each profile, and of the units of each phase chosen."""
    yield from _own_warnings(profiles, labels)
    if phase is None:
        yield from _left_out_warnings(profiles, labels, chosen)
    if not chosen:
        yield _totals_warning(profiles, labels)
    for name, row in zip(chosen, units, strict=False):
        yield from _step_warnings(name or "phase not known", labels, row)


def _own_warnings(
    profiles: Sequence[Attributed], labels: Sequence[str]
) -> Iterator[ProfileWarning]:
    """The reader warnings of each profile, with its label."""
    for attributed, label in zip(profiles, labels, strict=True):
        yield from labelled(attributed.profile.warnings, label)


def _left_out_warnings(
    profiles: Sequence[Attributed], labels: Sequence[str], chosen: Sequence[str | None]
) -> Iterator[ProfileWarning]:
    """Phases that a profile has and that are not compared."""
    for profile, label in zip(profiles, labels, strict=True):
        extra = [p or "(not known)" for p in phases_of(profile) if chosen and p not in chosen]
        if extra:
            text = f"{label}: steps of phase {', '.join(extra)} are not compared"
            yield ProfileWarning("phases_left_out", text)


def _totals_warning(profiles: Sequence[Attributed], labels: Sequence[str]) -> ProfileWarning:
    """That whole profiles are compared, and why."""
    why = []
    for profile, label in zip(profiles, labels, strict=True):
        phases = ", ".join(p or "(not known)" for p in phases_of(profile))
        bare = "a summary" if profile.profile.is_aggregate else "no steps"
        why.append(f"{label}: {f'steps of phase {phases}' if phases else bare}")
    return ProfileWarning(
        "unlike_units",
        f"no steps of a common phase ({'; '.join(why)}): totals of whole profiles are compared; "
        "differences and ratios mean something only if the profiles did the same amount of work",
    )


LONGER = 1.05
"""Outliers are named when they make the mean step time longer by at least this factor."""


def _outlier_warnings(phase: str, label: str, unit: Unit) -> Iterator[ProfileWarning]:
    """That the means leave out steps which make the phase longer."""
    if unit.usual is None or not (outliers := unit.usual.basis.left_out.outlier):
        return
    usual_ns = unit.usual.mean_ns
    every_ns = unit.usual.with_outliers["wall_ns"].mean()
    if not isinstance(every_ns, float) or every_ns < LONGER * usual_ns:
        return
    many = "1 step takes" if outliers == 1 else f"{outliers} steps take"
    text = (
        f"{phase}: {label}: {many} more than {OUTLIER:g} times the median and "
        f"{'is' if outliers == 1 else 'are'} left out of the means; with "
        f"{'it' if outliers == 1 else 'them'} the step time is {every_ns / 1e6:,.3f} instead of "
        f"{usual_ns / 1e6:,.3f} ms"
    )
    yield ProfileWarning("outlier_steps", text)


def _step_warnings(
    phase: str, labels: Sequence[str], units: Sequence[Unit]
) -> Iterator[ProfileWarning]:
    """What makes the steps of one phase hard to compare: few, or of other sizes."""
    for label, unit in zip(labels, units, strict=True):
        yield from _outlier_warnings(phase, label, unit)
    single = [label for label, unit in zip(labels, units, strict=True) if unit.count == 1]
    if single:
        yield ProfileWarning(
            "single_step",
            f"{phase}: one step only in {', '.join(single)}: its times are totals, how much they "
            "vary is not known",
        )
    for what in ("requests", "tokens"):
        means = [_mean(unit.steps[what]) for unit in units]
        measured = [mean for mean in means if mean]
        if len(measured) > 1 and max(measured) > UNLIKE * min(measured):
            each = ", ".join("?" if mean is None else f"{mean:,.1f}" for mean in means)
            yield ProfileWarning(
                "unlike_steps", f"{phase}: steps differ in their {what} ({each} per step)"
            )
    ends = {label: u.usual.measured for label, u in zip(labels, units, strict=True) if u.usual}
    if len(set(ends.values())) > 1:
        short = ", ".join(label for label, measured in ends.items() if measured == "extent")
        yield ProfileWarning(
            "unlike_steps",
            f"{phase}: in {short} no step follows, so its step time ends with its last activity; "
            "elsewhere it lasts to the start of the next step",
        )
    devices = [unit.devices for unit in units]
    if len(set(devices)) > 1:
        each = ", ".join(map(str, devices))
        yield ProfileWarning(
            "unlike_steps", f"{phase}: steps ran on {each} GPUs; times are per GPU"
        )
