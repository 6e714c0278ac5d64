"""Layers of a run: the time of each role, mean and spread over ranks, of one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from solscope.errors import InputError, UsageError
from solscope.profile import ProfileWarning
from solscope.ranks.analysis import Analysis
from solscope.run import Run
from solscope.views.run_roles import PhaseOfRun, Spread, keys, phases, spread, times


class RoleOfRun(msgspec.Struct, frozen=True):
    """One role; a list has an entry per run, null where the run does not have it."""

    layer_kind: str | None
    """Null outside of layers."""
    group: str | None
    """Part of the layer, `prologue` or `epilogue`; null where the place is not known."""
    role: str
    """Of a collective, with its kind: `all_reduce: all_reduce`; the category where no role is
    known."""
    communication: bool
    time_us: list[Spread | None]
    wait_us: list[Spread | None]
    """Of that, waiting for other ranks; null for what is not communication."""


class RunLayers(msgspec.Struct, frozen=True):
    """Layers of one or several runs; times of roles are per layer or per step, others per step."""

    runs: list[str]
    ranks: list[list[int]]
    phase: str | None
    per: str
    """`layer`, or `step`: all layers of a kind together. Outside of layers, always per step."""
    steps: list[int]
    """Counted steps, of the rank with most."""
    layers: dict[str, list[float | None]]
    """Layers of each kind, mean over ranks; the stages of a pipeline have some each."""
    step_us: list[Spread | None]
    overlapped_us: list[Spread | None]
    held_us: list[Spread | None]
    host_us: list[Spread | None]
    rows: list[RoleOfRun]
    warnings: list[list[ProfileWarning]]


def run_layers(
    runs: Sequence[Analysis],
    labels: Sequence[str],
    *,
    phase: str | None = None,
    per: Literal["layer", "step"] = "layer",
) -> RunLayers:
    """Roles of runs; `phase` defaults to the one with most time that all of them have."""
    phase = _phase(runs, labels, phase)
    sides = [PhaseOfRun(analysis, phase) for analysis in runs]
    kinds = dict.fromkeys(kind for side in runs for rank in side.run.ranks for kind in rank.layers)
    rows = []
    for key in keys(sides):
        kind, group, role, communication = key
        divide = per == "layer"
        whole = [_each(side, times(side, key), kind, divide) for side in sides]
        waits = [_each(side, times(side, key, "wait_ns"), kind, divide) for side in sides]
        waited = [wait if communication else None for wait in waits]
        rows.append(RoleOfRun(kind, group, role, communication, whole, waited))
    return RunLayers(
        runs=list(labels),
        ranks=[[rank.rank for rank in side.run.ranks] for side in runs],
        phase=phase,
        per=per,
        steps=[max((steps.height for steps in side.steps), default=0) for side in sides],
        layers={kind: [_count(side.run, kind) for side in runs] for kind in kinds},
        step_us=[side.step_us for side in sides],
        overlapped_us=[side.overlapped() for side in sides],
        held_us=[side.over_ranks("held_ns") for side in sides],
        host_us=[side.over_ranks("idle_ns") for side in sides],
        rows=rows,
        warnings=[list(side.run.warnings) for side in runs],
    )


def _phase(runs: Sequence[Analysis], labels: Sequence[str], wanted: str | None) -> str | None:
    phases_of_runs = [phases(analysis) for analysis in runs]
    for label, have in zip(labels, phases_of_runs, strict=True):
        if not have:
            raise InputError(f"{label}: no step that all ranks recorded whole, after the first")
        if wanted is not None and wanted not in have:
            there = ", ".join(phase or "not known" for phase in have)
            raise UsageError(f"{label}: no step of phase {wanted}; there are: {there}")
    if wanted is not None:
        return wanted
    common = [phase for phase in phases_of_runs[0] if all(phase in have for have in phases_of_runs)]
    if not common:
        raise InputError("the runs have no phase in common")
    return common[0]


def _each(
    side: PhaseOfRun, by_rank: dict[int, float], kind: str | None, per_layer: bool
) -> Spread | None:
    if per_layer and kind is not None:
        counts = {rank.rank: rank.layers.get(kind, 0) for rank in side.analysis.run.ranks}
        by_rank = {rank: us / counts[rank] for rank, us in by_rank.items() if counts[rank]}
    return spread(by_rank)


def _count(run: Run, kind: str) -> float | None:
    counts = [rank.layers[kind] for rank in run.ranks if kind in rank.layers]
    return sum(counts) / len(counts) if counts else None
