"""Two runs of many ranks, per step and role, with the communication apart.

Runs may differ in the number of ranks: TP4 against TP8. Every figure is the mean over a run's ranks
of what a step takes on each. The parts of a step add up to it exactly, on both sides:

    compute + transfer + waiting - hidden + held + host = step

*Hidden* is communication while the GPU computes as well. *Transfer* is what communication takes
beyond waiting for other ranks.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from solscope.compare.units import labelled, phase_names
from solscope.errors import UsageError
from solscope.profile import ProfileWarning
from solscope.ranks.analysis import Analysis
from solscope.views.ranks import rank_table
from solscope.views.run_roles import PhaseOfRun, keys, phases, times

PARTS = ("compute", "transfer", "waiting", "hidden", "held", "host", "step")


class RunSide(msgspec.Struct, frozen=True):
    """One of the runs."""

    name: str
    ranks: int
    """Ranks at hand."""
    world_size: int | None
    verdict: str
    """Who waits for whom."""


class Difference(msgspec.Struct, frozen=True):
    """One part of a step, ms; null where a run does not have it."""

    group: str | None
    name: str
    before_ms: float | None
    after_ms: float | None
    diff_ms: float
    ratio: float | None


class Exchange(msgspec.Struct, frozen=True):
    """Communication of one role and kind, before and after; null where a run does not have it."""

    group: str | None
    role: str
    """Role and kind: `all_reduce: all_reduce`."""
    calls: list[float | None]
    """Per step."""
    bytes: list[float | None]
    """What a rank sends per call, in the mean; null where it is not recorded."""
    transfer_ms: list[float | None]
    wait_ms: list[float | None]
    diff_ms: float


class PhaseOfRuns(msgspec.Struct, frozen=True):
    """The steps of one phase."""

    phase: str | None
    steps: list[int]
    tokens: list[float | None]
    """Tokens in a step of a rank, in the mean."""
    parts: list[Difference]
    """`PARTS`; `hidden` counts against the others."""
    roles: list[Difference]
    """Computing by role, the largest difference first."""
    communication: list[Exchange]


class RunComparison(msgspec.Struct, frozen=True):
    """What two runs differ in."""

    runs: list[RunSide]
    phases: list[PhaseOfRuns]
    warnings: list[ProfileWarning]


def compare_runs(
    before: Analysis, after: Analysis, labels: tuple[str, str], phase: str | None = None
) -> RunComparison:
    """Compare two runs in every phase that both have, or in one."""
    first, second = phases(before), phases(after)
    common = [name for name in first if name in second and (phase is None or name == phase)]
    if not common:
        have = [f"{x}: {phase_names(y)}" for x, y in zip(labels, (first, second), strict=True)]
        raise UsageError(f"no phase in common ({'; '.join(have)})")
    return RunComparison(
        runs=[_side(side, label) for side, label in zip((before, after), labels, strict=True)],
        phases=[_phase(before, after, name) for name in common],
        warnings=[
            warning
            for side, label in zip((before, after), labels, strict=True)
            for warning in labelled(side.run.warnings, label)
        ],
    )


def _side(analysis: Analysis, label: str) -> RunSide:
    run = analysis.run
    return RunSide(label, len(run.ranks), run.world_size, rank_table(analysis).verdict)


def _phase(before: Analysis, after: Analysis, phase: str | None) -> PhaseOfRuns:
    sides = PhaseOfRun(before, phase), PhaseOfRun(after, phase)
    parts = [_parts(side) for side in sides]
    role_keys = keys(sides)
    roles = [
        _difference(group, role, *(_mean(times(side, key)) for side in sides))
        for key in role_keys
        for _, group, role, communication in [key]
        if not communication
    ]
    return PhaseOfRuns(
        phase=phase,
        steps=[max((steps.height for steps in side.steps), default=0) for side in sides],
        tokens=[_tokens(side) for side in sides],
        parts=[_difference(None, name, parts[0][name], parts[1][name]) for name in PARTS],
        roles=sorted(roles, key=lambda row: -abs(row.diff_ms)),
        communication=sorted(
            (_exchange(sides, key) for key in role_keys if key[3]),
            key=lambda row: -abs(row.diff_ms),
        ),
    )


def _parts(side: PhaseOfRun) -> dict[str, float]:
    """`PARTS`, ms, mean over ranks."""

    def mean(column: str) -> float:
        spread = side.over_ranks(column)
        return 0.0 if spread is None else spread.mean / 1e3

    waits = [
        side.per_step_us(place, float(side.roles[place]["wait_ns"].sum())) / 1e3
        for place in side.places
    ]
    # Collectives on two streams can wait at once: no more than the time with any of them.
    waiting = min(float(np.mean(waits)) if waits else 0.0, mean("comm_ns"))
    parts = {
        "compute": mean("compute_ns"),
        "transfer": mean("comm_ns") - waiting,
        "waiting": waiting,
        "hidden": 0.0 - mean("overlap_ns"),
        "held": mean("held_ns"),
        "host": mean("idle_ns"),
    }
    return {**parts, "step": sum(parts.values())}


def _mean(by_rank: dict[int, float]) -> float | None:
    return float(np.mean(list(by_rank.values()))) / 1e3 if by_rank else None


def _tokens(side: PhaseOfRun) -> float | None:
    tables = [side.steps[place]["tokens"] for place in side.places]
    recorded = pl.concat(tables).drop_nulls() if tables else pl.Series([], dtype=pl.Int64)
    return float(np.mean(recorded.to_numpy())) if recorded.len() else None


def _difference(
    group: str | None, name: str, before: float | None, after: float | None
) -> Difference:
    ratio = after / before if before and after is not None else None
    return Difference(group, name, before, after, (after or 0.0) - (before or 0.0), ratio)


def _exchange(
    sides: tuple[PhaseOfRun, PhaseOfRun], key: tuple[str | None, str | None, str, bool]
) -> Exchange:
    whole = [_mean(times(side, key)) for side in sides]
    waits = [_mean(times(side, key, "wait_ns")) for side in sides]
    calls = [_mean(times(side, key, "calls")) for side in sides]
    return Exchange(
        group=key[1],
        role=key[2],
        calls=[None if value is None else value * 1e6 for value in calls],
        bytes=[_bytes(side, key) for side in sides],
        transfer_ms=[
            None if time is None or wait is None else time - wait
            for time, wait in zip(whole, waits, strict=True)
        ],
        wait_ms=waits,
        diff_ms=(whole[1] or 0.0) - (whole[0] or 0.0),
    )


def _bytes(side: PhaseOfRun, key: tuple[str | None, str | None, str, bool]) -> float | None:
    role, kind = key[2].rsplit(": ", 1)
    sizes = []
    for place in side.places:
        calls = side.analysis.run.ranks[place].calls
        wanted = (
            (pl.coalesce("role", pl.lit("comm")) == role)
            & (pl.col("kind") == kind)
            & pl.col("part").eq_missing(pl.lit(key[1]))
            & pl.col("step").is_in(side.steps[place]["step"].to_list())
        )
        sizes += calls.filter(wanted)["bytes"].drop_nulls().to_list()
    return float(np.mean(sizes)) if sizes else None
