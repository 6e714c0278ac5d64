"""A gate for CI: is the candidate slower than the baseline by more than a limit?

Tested is the mean step time of each phase that both profiles have and, on request, the GPU time per
step of a category, over the usual steps of each profile (`attribution/usual_steps.py`). Where
outliers take the mean of the candidate above the limit, all steps are tested as well. The answer is
`worse` only if the whole 95 % interval of one of these ratios is above the limit, `ok` only if all
of it is below, and otherwise `cannot_tell`. The interval speaks of the steps of these two
recordings; how much one run differs from the next it cannot know.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.rules import CATEGORIES
from solscope.attribution.usual_steps import OUTLIER, StepBasis
from solscope.compare.units import (
    Unit,
    labelled,
    phase_names,
    phases_of,
    shared_phases,
    steps_unit,
)
from solscope.errors import UsageError
from solscope.profile import ProfileWarning
from solscope.resample import Floats, Ratio, TwoSamples

Verdict = Literal["ok", "worse", "cannot_tell"]
MIN_STEPS = 5
"""Fewer steps on either side are not tested."""


class Check(msgspec.Struct, frozen=True):
    """One thing that was tested, in one phase."""

    phase: str | None
    what: str
    """`step`: step time; else the category whose GPU time per step was tested."""
    limit_pct: float
    n: list[int]
    """Steps measured in the baseline and in the candidate."""
    baseline_ms: float | None
    """Mean per step; null without steps."""
    candidate_ms: float | None
    ratio: float | None
    """Candidate over baseline."""
    low: float | None
    """Bounds of the ratio's 95 % interval; null when not tested."""
    high: float | None
    verdict: Annotated[
        Verdict,
        msgspec.Meta(description="Of this check: is the candidate slower than the limit allows?"),
    ]
    reason: str
    measured: Literal["start_to_start", "extent", "gpu_time"]
    """What a step's time is: `start_to_start`, to the start of the next step; `extent`, first start
    to last end on the GPU, when no step of a side is followed by another; `gpu_time`, the durations
    of a category."""
    basis: list[StepBasis]
    """The steps of the baseline and of the candidate, and which ones were left out; empty for runs
    of several ranks."""


class GateResult(msgspec.Struct, frozen=True):
    """The answer of the gate."""

    baseline: str
    """Path of the profile."""
    candidate: str
    max_regression_pct: float
    strict: bool
    verdict: Annotated[
        Verdict,
        msgspec.Meta(description="Of all checks: is the candidate slower than a limit allows?"),
    ]
    """`worse` when any check is; `ok` when every tested check is."""
    passed: bool
    """False for `worse`, and with `strict` for `cannot_tell`."""
    reason: str
    checks: list[Check]
    warnings: list[ProfileWarning]


class Sample(NamedTuple):
    """What a check is about: one value per step, in ns, for each side."""

    phase: str | None
    what: str
    limit: float
    before: Floats
    after: Floats
    measured: Literal["start_to_start", "extent", "gpu_time"]
    basis: Sequence[StepBasis] = ()
    all_steps: tuple[Floats, Floats] | None = None
    """The values with outliers; null where no side has any."""


def gate(
    baseline: Attributed,
    candidate: Attributed,
    max_regression: float,
    *,
    strict: bool = False,
    phase: str | None = None,
    budgets: Mapping[str, float] | None = None,
) -> GateResult:
    """Test the candidate; limits are fractions (0.03: 3 % slower is allowed).

    `budgets` gives categories their own limits. Without `strict`, phases with too few steps do
    not count unless there is no other; with it, everything has to be proven.
    """
    limits = checked_limits(max_regression, budgets or {})
    sides = (baseline, candidate)
    phases = [p for p in shared_phases(sides) if phase is None or p == phase]
    return judge_samples(
        (baseline.profile.path, candidate.profile.path),
        [sample for p in phases for sample in _samples(sides, p, limits)],
        max_regression,
        strict,
        _nothing(sides, phase),
        list(_warnings(sides, phases if phase is None else [])),
    )


def judge_samples(
    names: tuple[str, str],
    samples: Sequence[Sample],
    max_regression: float,
    strict: bool,
    nothing: str,
    warnings: list[ProfileWarning],
) -> GateResult:
    """The answer for these samples; `nothing` is the reason where there are none."""
    checks = [_check(sample) for sample in samples]
    verdict = _overall(checks, strict)
    return GateResult(
        baseline=names[0],
        candidate=names[1],
        max_regression_pct=100 * max_regression,
        strict=strict,
        verdict=verdict,
        passed=verdict == "ok" or (verdict == "cannot_tell" and not strict),
        reason=_reason(checks, verdict) if checks else nothing,
        checks=checks,
        warnings=warnings,
    )


def checked_limits(max_regression: float, budgets: Mapping[str, float]) -> dict[str, float]:
    """All limits by what they are for; refuses those that make no sense."""
    for name in budgets:
        if name not in CATEGORIES:
            near = difflib.get_close_matches(name, CATEGORIES, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"no category {name!r}; {hint}choose from: {', '.join(CATEGORIES)}")
    limits = {"step": max_regression, **budgets}
    for name, limit in limits.items():
        if not 0 <= limit < 100:
            raise UsageError(
                f"the limit of {name} is {limit}; it must be a fraction of at least 0, e.g. 0.03"
            )
    return limits


def _samples(
    sides: Sequence[Attributed], phase: str | None, limits: Mapping[str, float]
) -> Iterator[Sample]:
    units = [steps_unit(side, phase) for side in sides]
    basis = [unit.usual.basis for unit in units if unit.usual is not None]
    whole = None
    if any(side.left_out.outlier for side in basis):
        whole = [steps_unit(side, phase, outliers=True) for side in sides]
    followed = all(unit.steps["time_ns"].count() for unit in units)
    column = "time_ns" if followed else "extent_ns"
    measured: Literal["start_to_start", "extent"] = "start_to_start" if followed else "extent"

    def values(of: Sequence[Unit], what: str) -> tuple[Floats, Floats]:
        before, after = (
            _step_times(unit, column) if what == "step" else _category_times(unit, what)
            for unit in of
        )
        return before, after

    for what, limit in limits.items():
        ends = measured if what == "step" else "gpu_time"
        all_steps = None if whole is None else values(whole, what)
        yield Sample(phase, what, limit, *values(units, what), ends, basis, all_steps)


def _step_times(unit: Unit, column: str) -> Floats:
    return unit.steps[column].drop_nulls().to_numpy().astype(np.float64)


def _category_times(unit: Unit, category: str) -> Floats:
    """GPU time of a category in each step, per GPU; 0 in steps without it."""
    rows = unit.rows.filter(pl.col("category").cast(pl.String) == category)
    sums = rows.group_by("step").agg(pl.col("total_ns").sum())
    joined = unit.steps.select("step").join(sums, on="step", how="left", maintain_order="left")
    return joined["total_ns"].fill_null(0).to_numpy().astype(np.float64) / unit.devices


def _check(sample: Sample) -> Check:
    before, after = sample.before, sample.after
    bounds, verdict, reason = _judge(sample)
    return Check(
        phase=sample.phase,
        what=sample.what,
        limit_pct=100 * sample.limit,
        n=[before.size, after.size],
        baseline_ms=float(before.mean()) / 1e6,
        candidate_ms=float(after.mean()) / 1e6,
        ratio=float(after.mean() / before.mean()) if before.any() else None,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        verdict=verdict,
        reason=reason,
        measured=sample.measured,
        basis=list(sample.basis),
    )


def _judge(sample: Sample) -> tuple[Ratio | None, Verdict, str]:
    before, after, limit = sample.before, sample.after, sample.limit
    if min(before.size, after.size) < MIN_STEPS:
        return None, "cannot_tell", f"n = {before.size}/{after.size}"
    if not before.any():
        if not after.any():
            return None, "ok", f"no {sample.what} time on either side"
        return None, "cannot_tell", f"no {sample.what} time in the baseline"
    if np.array_equal(before, after) and sample.all_steps is None:
        return Ratio(1.0, 1.0, 1.0), "ok", "the same values on both sides"
    ratio = TwoSamples(before, after).ratio()
    verdict, reason = _against(ratio, limit)
    if verdict != "worse" and (hidden := _with_outliers(sample)) is not None:
        return ratio, *hidden
    return ratio, verdict, reason


def _with_outliers(sample: Sample) -> tuple[Verdict, str] | None:
    """The verdict where outliers of the candidate take it above the limit; null if they do not."""
    if sample.all_steps is None or not sample.basis[1].left_out.outlier:
        return None
    before, after = sample.all_steps
    if after.mean() <= (1 + sample.limit) * before.mean():
        return None
    verdict, reason = _against(TwoSamples(before, after).ratio(), sample.limit)
    outliers, steps = sample.basis[1].left_out.outlier, sample.basis[1].of
    return verdict, (
        f"{outliers} of {steps} steps of the candidate {'takes' if outliers == 1 else 'take'} more "
        f"than {OUTLIER:g} times its median; with outliers {reason}"
    )


def _against(ratio: Ratio, limit: float) -> tuple[Verdict, str]:
    text = f"×{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    if ratio.low > 1 + limit:
        return "worse", f"{text}: entirely above ×{1 + limit:.3f}"
    if ratio.high < 1 + limit:
        return "ok", f"{text}: entirely below ×{1 + limit:.3f}"
    return "cannot_tell", f"{text}: the limit ×{1 + limit:.3f} is inside the interval"


def _overall(checks: Sequence[Check], strict: bool) -> Verdict:
    if any(check.verdict == "worse" for check in checks):
        return "worse"
    tested = [check for check in checks if strict or min(check.n) >= MIN_STEPS]
    if not tested or any(check.verdict == "cannot_tell" for check in tested):
        return "cannot_tell"
    return "ok"


def _reason(checks: Sequence[Check], verdict: Verdict) -> str:
    """The checks that decided, and those that were not tested."""
    deciding = [check for check in checks if check.verdict == verdict]
    unsure = [c for c in checks if c.verdict == "cannot_tell" and c not in deciding]
    parts = [f"{name_of(check)} {check.reason}" for check in deciding]
    if unsure:
        parts.append("not decided: " + ", ".join(f"{name_of(c)} {c.reason}" for c in unsure))
    return "; ".join(parts)


def name_of(check: Check) -> str:
    """Phase and what was tested, for reading."""
    return f"{check.phase or 'phase not known'} {check.what}"


def _nothing(sides: Sequence[Attributed], phase: str | None) -> str:
    if phase is not None:
        return f"only one of the profiles has complete steps of phase {phase}"
    if any(side.profile.is_aggregate for side in sides):
        return "a summary without a time line has no steps"
    has = [phase_names(phases_of(side)) for side in sides]
    return f"no phase in common (baseline: {has[0]}; candidate: {has[1]})"


def _warnings(
    sides: Sequence[Attributed], phases: Sequence[str | None]
) -> Iterator[ProfileWarning]:
    for side, label in zip(sides, ("baseline", "candidate"), strict=True):
        yield from labelled(side.profile.warnings, label)
        extra = [p or "(not known)" for p in phases_of(side) if p not in phases]
        if extra and phases:
            text = f"{label}: steps of phase {', '.join(extra)} are not tested"
            yield ProfileWarning("phases_left_out", text)
    first, second = sides
    if first.steps.height and first.steps.equals(second.steps):
        yield ProfileWarning(
            "same_recording",
            "the steps of both profiles agree to the nanosecond: this is one recording, twice",
        )
