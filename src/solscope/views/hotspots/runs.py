"""The work list of a run: that of its ranks in the mean, with waiting apart from communication.

Figures are about the phase with most time over all ranks, as those of one profile are; a rank that
spends most of its own time in another phase still counts with this one.

In one rank's trace, waiting for another rank looks like communication. Here what is not hidden of a
collective is split: the transfer, which overlap or a faster link could save, and waiting, which
only the rank that comes late can. Waiting is ranked by what the step would be shorter, had that
rank been in time: rows of kind `imbalance`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.analysis import Analysis
from solscope.views.hotspots.additive import additive
from solscope.views.hotspots.advice import ANY_LATE_RANK, TRANSFER, late_rank
from solscope.views.hotspots.base import Hotspot, HotspotCoverage, HotspotTable, mean_count, take
from solscope.views.run_roles import phases, run_basis, step_phases

LEAST_PCT = 0.5
"""Waiting that costs less of a step than this is not listed."""
REASONS = {
    "gpu": "its GPU is slower or busy with other work",
    "host": "its host launches later",
    "load": "it has more to do",
    "link": "its link is slower",
}


def run_hotspots(
    analysis: Analysis, by_phase: Mapping[int, Sequence[HotspotTable]]
) -> HotspotTable:
    """Rank what the ranks of a run could save; `by_phase` holds the work lists of each rank."""
    phase = next(iter(phases(analysis)), None)
    # Without whole steps that all ranks have, each rank speaks of its own longest phase.
    wanted = {rank: [t for t in phases if t.phase == phase] for rank, phases in by_phase.items()}
    if not analysis.steps.size:
        wanted = {rank: list(phases) for rank, phases in by_phase.items()}
    tables = {rank: phases[0] for rank, phases in wanted.items() if phases}
    steps = _Steps.of(analysis, phase)
    step_us = float(steps.length.mean()) / 1e3 if steps.length.size else 0.0
    if not step_us:
        step_us = 1e3 * float(np.mean([table.step_ms for table in tables.values()] or [0.0]))
    late = _imbalance(analysis, steps)
    transfers = _transfers(analysis, steps)
    rows = [*_of_ranks(tables, set(late)), *(row for row, _ in transfers), *late.values()]
    shares = [
        msgspec.structs.replace(
            row, recoverable_pct_of_step=100 * row.recoverable_us / step_us if step_us else 0.0
        )
        for row in rows
    ]
    hidden = sum(hidden_us for _, hidden_us in transfers)
    ranked = additive(shares, _compute_us(analysis, steps), step_us, hidden)
    example = next(iter(tables.values()), None) or next(iter(by_phase.values()))[0]
    costs = [t.coverage.cost_pct for t in tables.values() if t.coverage.cost_pct is not None]
    return HotspotTable(
        profile=analysis.run.name,
        hardware=example.hardware,
        no_hardware=example.no_hardware,
        phase=phase,
        steps=int(steps.numbers.size) or example.steps,
        basis=run_basis(analysis, phase, step_us / 1e3) if steps.numbers.size else example.basis,
        step_ms=step_us / 1e3,
        target_pct=example.target_pct,
        coverage=HotspotCoverage(
            min(costs, default=None), any(t.coverage.graph_replays for t in tables.values())
        ),
        hotspots=[
            msgspec.structs.replace(row, rank=number) for number, row in enumerate(ranked, start=1)
        ],
    )


class _Steps(NamedTuple):
    """The counted steps of one phase."""

    numbers: NDArray[np.int64]
    """As the run numbers them."""
    length: NDArray[np.float64]
    cost: NDArray[np.float64]
    """What each rank's lateness cost, by step and rank."""

    @classmethod
    def of(cls, analysis: Analysis, phase: str | None) -> _Steps:
        of_step = step_phases(analysis)
        here = np.array([of_step[int(step)] == phase for step in analysis.steps], bool)
        charge = analysis.charge
        return cls(charge.steps[here], charge.length[here], charge.cost[here])


def _compute_us(analysis: Analysis, steps: _Steps) -> float:
    """Time of a step in which a rank computes, mean over ranks."""
    total = 0
    for rank, shift in zip(analysis.run.ranks, analysis.shifts, strict=True):
        own = rank.steps.filter(pl.col("step").is_in((steps.numbers - shift).tolist()))
        total += int(own["compute_ns"].sum())
    return total / 1e3 / max(1, steps.numbers.size) / len(analysis.run.ranks)


def _of_ranks(tables: Mapping[int, HotspotTable], late: set[int]) -> list[Hotspot]:
    """Rows of all ranks but communication: the mean, with the words of the rank with most.

    What a late rank has more than the others is why they wait: that saving is in its own row.
    """
    alike: dict[tuple[str, ...], list[tuple[int, Hotspot]]] = {}
    for rank, table in tables.items():
        for row in table.hotspots:
            if row.kind != "comm":
                axes = json.dumps(row.axes, sort_keys=True, default=str)
                key = (row.kind, row.operator, row.role or "", axes)
                alike.setdefault(key, []).append((rank, row))
    return [_mean(dict(rows), list(tables), late) for rows in alike.values()]


def _mean(of_rank: Mapping[int, Hotspot], ranks: Sequence[int], late: set[int]) -> Hotspot:
    rows = list(of_rank.items())
    rank, most = max(rows, key=lambda pair: pair[1].recoverable_us)
    whole = len(rows) == len(ranks)
    where = f"on rank {rank}" if len(rows) == 1 else f"on {len(rows)} ranks; most on rank {rank}"

    def mean(name: str) -> float:
        return float(sum(getattr(row, name) or 0.0 for _, row in rows)) / len(ranks)

    saves = {rank: row.recoverable_us for rank, row in rows}
    others = [saves.get(rank, 0.0) for rank in ranks if rank not in late]
    usual = float(np.median(others)) if others else np.inf
    saved = sum(min(saves.get(rank, 0.0), usual if rank in late else np.inf) for rank in ranks)
    blamed = sorted(rank for rank in late if saves.get(rank, 0.0) > usual)
    beyond = f"; what rank {', '.join(map(str, blamed))} has more counts as waiting for it"
    return msgspec.structs.replace(
        most,
        calls_per_step=mean("calls_per_step"),
        time_us=mean("time_us"),
        bound_us=mean("bound_us") if most.bound_us is not None else None,
        recoverable_us=saved / len(ranks),
        why=(most.why if whole and len(rows) == 1 else f"{where}: {most.why}")
        + (beyond if blamed else ""),
    )


class _Sums(NamedTuple):
    calls: int
    time_ns: float
    wait_ns: float
    hidden_ns: float
    exposed_ns: float
    """Neither waiting nor hidden, call by call."""


def _transfers(analysis: Analysis, steps: _Steps) -> list[tuple[Hotspot, float]]:
    """Communication by kind: what neither computing hides nor waiting for a rank explains.

    And what computing hides, us per step and rank.
    """
    sums: dict[str, list[_Sums]] = {}
    for rank_index, rank in enumerate(analysis.run.ranks):
        wait = np.zeros(rank.calls.height)
        has_call = analysis.matched.index[:, rank_index] >= 0
        wait[analysis.matched.index[has_call, rank_index]] = np.nan_to_num(
            analysis.split.wait[has_call, rank_index]
        )
        numbers = (steps.numbers - analysis.shifts[rank_index]).tolist()
        own = rank.calls.with_columns(pl.Series("wait_ns", wait)).filter(
            pl.col("step").is_in(numbers)
        )
        for (kind,), calls in own.group_by("kind", maintain_order=True):
            times = (calls["end_ns"] - calls["start_ns"]).to_numpy()
            # A call can wait while computing goes on: the longer of both counts, once.
            covered = np.maximum(calls["wait_ns"].to_numpy(), calls["hidden_ns"].to_numpy())
            sums.setdefault(str(kind), []).append(
                _Sums(
                    calls.height,
                    float(times.sum()),
                    float(calls["wait_ns"].sum()),
                    float(calls["hidden_ns"].sum()),
                    float(np.maximum(times - covered, 0.0).sum()),
                )
            )
    per = 1e3 * max(1, steps.numbers.size) * len(analysis.run.ranks)
    return [_transfer(kind, rows, per) for kind, rows in sums.items()]


def _transfer(kind: str, rows: list[_Sums], per: float) -> tuple[Hotspot, float]:
    calls, time, wait, hidden, saved = (
        sum(row[column] for row in rows) / (per / 1e3 if column == 0 else per)
        for column in range(5)
    )
    row = _row(
        "comm",
        kind,
        calls=calls,
        time_us=time,
        saved_us=saved,
        confidence="low",
        why=f"{mean_count(calls, 'call')} {take(calls)} {time:,.2f} µs per rank: {wait:,.2f} µs "
        f"waiting for other ranks, {hidden:,.2f} µs while it computes",
        advice=TRANSFER,
    )
    return row, hidden


def _imbalance(analysis: Analysis, steps: _Steps) -> dict[int, Hotspot]:
    """Waiting for each rank that costs a step something: by rank, what the step would save."""
    length, count = float(steps.length.sum()), steps.numbers.size
    if not length:
        return {}
    of_phase = np.isin(analysis.matched.table["step"].fill_null(-1).to_numpy(), steps.numbers)
    rows = {}
    for rank_index, rank in enumerate(analysis.matched.ranks):
        cost = float(steps.cost[:, rank_index].sum())
        if 100 * cost < LEAST_PCT * length:
            continue
        named = analysis.suspect.rank == rank
        lateness = analysis.why if analysis.suspect.leader == rank else None
        reason = REASONS.get(lateness.why) if lateness is not None else None
        per_step = int((of_phase & (analysis.split.last == rank_index)).sum()) / count
        rows[rank] = _row(
            "imbalance",
            f"waiting for rank {rank}",
            calls=per_step,
            time_us=cost / count / 1e3,
            saved_us=cost / count / 1e3,
            confidence="high" if named else "low",
            why=f"it comes last to {mean_count(per_step, 'collective')}, and the others could "
            "go on earlier" + (f": {reason}" if reason else ""),
            advice=ANY_LATE_RANK if lateness is None else late_rank(lateness.why),
        )
    return rows


def _row(
    kind: str,
    name: str,
    *,
    calls: float,
    time_us: float,
    saved_us: float,
    confidence: str,
    why: str,
    advice: str,
) -> Hotspot:
    return Hotspot(
        rank=0,
        kind=kind,  # type: ignore[arg-type]
        operator=name,
        role=None,
        axes=None,
        calls_per_step=calls,
        time_us=time_us,
        bound_us=None,
        limiter=None,
        expected_us=None,
        efficiency_pct=None,
        recoverable_us=saved_us,
        recoverable_pct_of_step=0.0,
        confidence=confidence,  # type: ignore[arg-type]
        why=why,
        advice=advice,
    )
