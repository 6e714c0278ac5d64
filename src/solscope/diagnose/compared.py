"""The runs of a diagnosis: what each is, and how well they can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.matching.units import Side, Units
from solscope.diagnose.verdict import figures
from solscope.intervals import Int64s
from solscope.views.verdict import Figure


class RunSummary(msgspec.Struct, frozen=True):
    """One side of the comparison."""

    path: str
    steps: int
    """Steps compared, including those of a phase missing in the other run if the mix changed."""
    p50_ms: float | None
    p99_ms: float | None
    """Both null where steps were converted to units of the other run: pieces have other quantiles.
    """
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


def summaries_of(units: Units, findings: Findings | None) -> list[RunSummary]:
    """Both runs; with findings, the steps of the abnormal one in units of the normal one."""
    if findings is None:
        means: tuple[float | None, float | None] = (None, None)
        wholes = (True, True)
    else:
        means = (findings.parts.normal_ms, findings.parts.abnormal_ms)
        wholes = (True, units.factor == 1.0)
    rows = zip(*((stratum.normal, stratum.abnormal) for stratum in units.strata), strict=True)
    compared = [np.concatenate(steps) for steps in rows] or [np.empty(0, np.int64)] * 2
    sides = (units.normal, units.abnormal)
    return [summary_of(*given) for given in zip(sides, compared, means, wholes, strict=True)]


def summary_of(
    side: Side,
    rows: Int64s,
    mean_ms: float | None,
    whole: bool = True,
) -> RunSummary:
    """One side; `whole` says that its steps are the unit that is compared, and not pieces of it."""
    values = side.wall[rows] / 1e6
    seen = whole and values.size > 0
    steps = max(1, len(side.run.steps))
    return RunSummary(
        path=side.run.run.name,
        steps=int(values.size),
        p50_ms=float(np.quantile(values, 0.5)) if seen else None,
        p99_ms=float(np.quantile(values, 0.99)) if seen else None,
        mean_ms=mean_ms,
        steps_in_recording=len(side.run.steps),
        dropped=side.dropped,
        overhead_ms=side.run.run.overhead_ns / steps / 1e6,
        samples=max((c.n for c in side.run.counters), default=0),
    )


def figures_of(units: Units, findings: Findings | None, runs: Sequence[RunSummary]) -> list[Figure]:
    """Mean steps and their ratio, as in the sentence; medians where nothing was compared."""
    if findings is None:
        scopes = [f"median of {units.counted(run.steps)}" for run in runs]
        times = [run.p50_ms for run in runs]
        return figures.of_two(times, scopes, None, None, like_for_like=False)
    scopes = [f"mean of {units.counted(run.steps)}" for run in runs]
    if units.factor != 1.0:
        scopes[1] += ", in units of the normal run"
    low, high = findings.outcome.low, findings.outcome.high
    bounds = None if low is None or high is None else (low, high)
    return figures.of_two(
        [run.mean_ms for run in runs],
        scopes,
        findings.outcome.ratio,
        bounds,
        like_for_like=bool(units.moved),
    )


def comparability_of(units: Units, findings: Findings | None) -> Comparability:
    """Whether the runs can be compared; noise between starts is part of the findings."""
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
        run_noise_pct=None if findings is None else 100 * findings.outcome.run_noise,
    )


def warnings_of(units: Units, findings: Findings | None = None) -> list[str]:
    """What weakens the comparison: how the runs were recorded, and what could not be tested."""
    warnings = [
        f"{label}: {warning}"
        for label, side in (("normal", units.normal), ("abnormal", units.abnormal))
        for warning in _recording_warnings(side)
    ]
    return warnings if findings is None else [*warnings, *_untested(units, findings)]


def _recording_warnings(side: Side) -> Iterator[str]:
    run = side.run.run
    yield from run.warnings
    if not side.run.counters:
        yield "no sensor samples within its steps; causes that only sensors tell apart stay open"
    yield from interruptions(side)
    if run.stacks:
        yield "Python frames were recorded, which slows the host down"
    if run.processes > 1 or run.devices > 1:
        which = "first process" if side.run.anchor is None else "process with most cycles"
        yield (
            f"{run.processes} processes and {run.devices} GPUs; the {which} and its busiest GPU "
            "are compared"
        )


def interruptions(side: Side) -> Iterator[str]:
    """Steps that count although the profiler itself interrupted them."""
    if side.profiled.size:
        size, steps = side.profiled.size, len(side.run.steps)
        more = " more" if side.interrupted.size else ""  # beside those that are left out
        kept = "it is kept, so its time" if size == 1 else "they are kept, so their times"
        yield (
            f"the profiler itself interrupted {size}{more} of the {steps} steps; {kept} may be too "
            "long"
        )


def _untested(units: Units, findings: Findings) -> Iterator[str]:
    if not any(stratum.tested for stratum in units.strata):
        sizes = ", ".join(f"{s.normal.size}/{s.abnormal.size}" for s in units.common)
        yield f"not tested: too few steps (n = {sizes})"
    untested = [counter.name for counter in findings.counters if counter.state == "not_tested"]
    if untested:
        names = ", ".join(dict.fromkeys(untested))
        yield f"not tested, too few samples within the steps: {names}"
