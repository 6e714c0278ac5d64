"""The gate for runs of many ranks: the step of the run, not that of one rank.

A step of a run takes as long as the median of its ranks' steps, each from its start to the start of
the next. A category's time is the mean over ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from solscope.compare.gate import GateResult, Sample, checked_limits, judge_samples
from solscope.compare.units import labelled, phase_names
from solscope.profile import ProfileWarning
from solscope.ranks.analysis import Analysis
from solscope.ranks.lengths import step_lengths
from solscope.resample import Floats
from solscope.views.run_roles import PhaseOfRun, phases


def gate_runs(
    baseline: Analysis,
    candidate: Analysis,
    max_regression: float,
    *,
    strict: bool = False,
    phase: str | None = None,
    budgets: Mapping[str, float] | None = None,
) -> GateResult:
    """Test a run against another, phase by phase; limits are fractions."""
    limits = checked_limits(max_regression, budgets or {})
    phases_of_sides = [phases(side) for side in (baseline, candidate)]
    common = [
        name for name in phases_of_sides[0] if name in phases_of_sides[1] and phase in (None, name)
    ]
    have = [phase_names(names) for names in phases_of_sides]
    return judge_samples(
        (baseline.run.name, candidate.run.name),
        [s for name in common for s in _samples((baseline, candidate), name, limits)],
        max_regression,
        strict,
        f"no phase in common (baseline: {have[0]}; candidate: {have[1]})",
        list(_warnings(baseline, candidate)),
    )


def _samples(
    sides: tuple[Analysis, Analysis], phase: str | None, limits: Mapping[str, float]
) -> Iterator[Sample]:
    runs = [PhaseOfRun(side, phase) for side in sides]
    before, after = (_step_times(run) for run in runs)
    yield Sample(phase, "step", limits["step"], before, after, "start_to_start")
    for category in (name for name in limits if name != "step"):
        before, after = (_category_times(run, category) for run in runs)
        yield Sample(phase, category, limits[category], before, after, "gpu_time")


def _steps(side: PhaseOfRun, place: int) -> list[int]:
    """Steps of a rank that another one follows: the last one has no length."""
    numbers = set(side.analysis.run.ranks[place].steps["step"].to_list())
    return [step for step in side.steps[place]["step"].to_list() if step + 1 in numbers]


def _step_times(side: PhaseOfRun) -> Floats:
    by_rank = []
    for place in side.places:
        lengths = step_lengths(side.analysis.run.ranks[place].steps)
        shift = side.analysis.shifts[place]
        by_rank.append({step + shift: lengths[step] for step in _steps(side, place)})
    return _by_step(by_rank, np.median)


def _category_times(side: PhaseOfRun, category: str) -> Floats:
    by_rank = []
    for place in side.places:
        rank = side.analysis.run.ranks[place]
        if category == "comm":
            times = rank.calls.select("step", ns=pl.col("end_ns") - pl.col("start_ns"))
        else:
            alike = rank.work.filter(pl.col("category") == category)
            times = alike.select("step", ns="total_ns")
        sums = dict(times.group_by("step").agg(pl.col("ns").sum()).iter_rows())
        steps, shift = side.steps[place]["step"].to_list(), side.analysis.shifts[place]
        by_rank.append({step + shift: int(sums.get(step, 0)) for step in steps})
    return _by_step(by_rank, np.mean)


def _by_step(
    by_rank: Sequence[Mapping[int, int]], over_ranks: Callable[..., np.floating[Any]]
) -> Floats:
    """One value per step of the run, from the ranks that have this step in this phase.

    Steps are those of the run: the third one of a rank that lacks a step, or has another phase in
    one, is not the third one of the others.
    """
    steps = sorted({step for values in by_rank for step in values})
    each = ([values[step] for values in by_rank if step in values] for step in steps)
    return np.array([float(over_ranks(values)) for values in each])


def _warnings(baseline: Analysis, candidate: Analysis) -> Iterator[ProfileWarning]:
    for label, side in (("baseline", baseline), ("candidate", candidate)):
        yield from labelled(side.run.warnings, label)
    sizes = [len(side.run.ranks) for side in (baseline, candidate)]
    if sizes[0] != sizes[1]:
        text = f"the runs have {sizes[0]} and {sizes[1]} ranks"
        yield ProfileWarning("other_ranks", text)
