"""The analysis of a run, made once: matched, aligned, split, charged and explained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.clock import Clock, Times, align
from solscope.ranks.lengths import step_lengths
from solscope.ranks.load import Imbalance, imbalance, received
from solscope.ranks.match import Matched, match, step_shifts
from solscope.ranks.pipeline import Pipeline, Stages, describe, find_stages, stage_costs
from solscope.ranks.straggler import Charge, Suspect, find_suspect, leader
from solscope.ranks.waiting import Waiting, waiting
from solscope.ranks.why import Why, Work, explain, explain_stage
from solscope.run import Run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Analysis:
    """What is known of a run beyond its ranks."""

    run: Run
    matched: Matched = field(repr=False)
    clock: Clock
    times: Times = field(repr=False)
    split: Waiting = field(repr=False)
    steps: NDArray[np.int64]
    """Steps that figures are about, numbered as in `matched`: the first and cut ones left out."""
    own_steps: list[set[int]]
    """The same steps by rank, numbered as the rank does."""
    shifts: list[int]
    """What to add to a rank's step numbers to get those of the run, by rank."""
    charge: Charge = field(repr=False)
    suspect: Suspect
    why: Why | None
    """Why the rank that costs most is late; null without one."""
    received: list[float | None]
    """Rows that reach each rank's experts per step."""
    imbalance: Imbalance
    pipeline: Pipeline | None
    """Stages; null where ranks do not hand work to one another."""

    def rank_steps(self, rank_index: int) -> pl.DataFrame:
        """Steps of one rank that figures are about."""
        return self.run.ranks[rank_index].steps.filter(
            pl.col("step").is_in(sorted(self.own_steps[rank_index]))
        )

    def rank_length_ns(self, rank_index: int) -> int:
        """Length of all these steps on that rank's own clock, each to the start of the next."""
        lengths = step_lengths(self.run.ranks[rank_index].steps)
        return sum(lengths[step] for step in self.own_steps[rank_index])

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which collectives lie in the steps that figures are about."""
        step = self.matched.table["step"].fill_null(-1).to_numpy()
        return np.isin(step, self.steps)


def analyze(run: Run) -> Analysis:
    """Match, align and split the collectives of a run, and find its straggler."""
    matched = match(run)
    clock, times = align(run, matched)
    split = waiting(run, matched, clock, times)
    shifts = step_shifts(run.ranks, matched.index)
    steps = _whole_steps(run, shifts)
    own = [
        {step - shift for step in steps} & set(rank.steps["step"].to_list())
        for rank, shift in zip(run.ranks, shifts, strict=True)
    ]
    stages = find_stages(run, matched)
    charge = _charge(run, matched, split, stages, np.array(sorted(steps), np.int64), shifts)
    tables = [received(rank, steps, shift) for rank, shift in zip(run.ranks, shifts, strict=True)]
    totals = [
        _per_step(int(table["rows"].sum()), table, len(mine))
        for table, mine in zip(tables, own, strict=True)
    ]
    tokens = [
        _mean(run.ranks[rank_index].steps, own[rank_index], "tokens")
        for rank_index in range(len(run.ranks))
    ]
    why = _why(run, matched, split, stages, own, charge, tokens, totals)
    suspect = find_suspect(charge, matched.ranks, None if why is None else why.why)
    layers = [_by_layer(table, len(mine)) for table, mine in zip(tables, own, strict=True)]
    analysis = Analysis(
        run=run,
        matched=matched,
        clock=clock,
        times=times,
        split=split,
        steps=charge.steps,
        own_steps=own,
        shifts=shifts,
        charge=charge,
        suspect=suspect,
        why=why,
        received=totals,
        imbalance=imbalance([rank.rank for rank in run.ranks], tokens, totals, layers),
        pipeline=None,
    )
    if stages is None:
        return analysis
    own_steps = [analysis.rank_steps(rank_index) for rank_index in range(len(run.ranks))]
    lengths = [analysis.rank_length_ns(rank_index) for rank_index in range(len(run.ranks))]
    pipeline = describe(run, matched, split, stages, analysis.counted, own_steps, lengths)
    return replace(analysis, pipeline=pipeline)


def _whole_steps(run: Run, shifts: list[int]) -> set[int]:
    """Steps that every rank recorded whole, without the first of any rank."""
    common: set[int] | None = None
    for rank, shift in zip(run.ranks, shifts, strict=True):
        if rank.steps.is_empty():
            continue
        whole = rank.steps.filter(~pl.col("cut"))["step"].to_list()
        first = int(rank.steps["step"].to_numpy().min())
        mine = {step + shift for step in whole if step != first}
        common = mine if common is None else common & mine
    return common or set()


def _charge(
    run: Run,
    matched: Matched,
    split: Waiting,
    stages: Stages | None,
    steps: NDArray[np.int64],
    shifts: list[int],
) -> Charge:
    """What each rank's lateness cost in each step, and the length of the steps."""
    cost = np.zeros((steps.size, len(run.ranks)))
    step = matched.table["step"].fill_null(-1).to_numpy()
    place = np.searchsorted(steps, step)
    counted = np.isin(step, steps)
    late = counted & (split.last >= 0)
    if stages is not None:
        # Stages wait for one another by turns: there only what all ranks enter at once is charged.
        late &= matched.table["synchronizing"].to_numpy()
    np.add.at(cost, (place[late], split.last[late]), split.cost[late])
    busy = counted & (split.busiest >= 0)
    np.add.at(cost, (place[busy], split.busiest[busy]), split.uneven[busy])
    if stages is not None:
        cost += stage_costs(run, stages, steps, shifts)
    lengths = [
        {step + shift: length for step, length in step_lengths(rank.steps).items()}
        for rank, shift in zip(run.ranks, shifts, strict=True)
    ]
    length = np.array(
        [
            np.median([of_rank[n] for of_rank in lengths if n in of_rank] or [0])
            for n in steps.tolist()
        ]
    )
    compared = bool((counted & ~np.isnan(split.wait).all(1)).any())
    return Charge(steps, cost, length, compared or bool(busy.any()) or stages is not None)


def _why(
    run: Run,
    matched: Matched,
    split: Waiting,
    stages: Stages | None,
    own: list[set[int]],
    charge: Charge,
    tokens: list[float | None],
    totals: list[float | None],
) -> Why | None:
    rank_index = leader(charge)
    if rank_index is None:
        return None
    step = matched.table["step"].fill_null(-1).to_numpy()
    rows = (split.last == rank_index) & np.isin(step, charge.steps)
    requests = [_mean(rank.steps, own[n], "requests") for n, rank in enumerate(run.ranks)]
    sums = {"tokens": tokens, "requests": requests, "rows received by its experts": totals}
    work = {
        name: Work(values[rank_index], _middle_of_others(values, rank_index))
        for name, values in sums.items()
    }
    if stages is not None and stages.of[rank_index] >= 0:
        return explain_stage(run, rank_index, own, work)
    mine = (split.busiest == rank_index) & np.isin(step, charge.steps)
    return explain(run, split, rank_index, rows, own, work, float(split.uneven[mine].sum()))


def _middle_of_others(values: list[float | None], rank_index: int) -> float | None:
    others = [value for n, value in enumerate(values) if n != rank_index and value is not None]
    return float(np.median(others)) if others else None


def _mean(steps: pl.DataFrame, numbers: set[int], name: str) -> float | None:
    values = steps.filter(pl.col("step").is_in(sorted(numbers)))[name].drop_nulls()
    return None if values.is_empty() else float(np.mean(values.to_numpy()))


def _per_step(total: int, table: pl.DataFrame, steps: int) -> float | None:
    return None if table.is_empty() or not steps else total / steps


def _by_layer(table: pl.DataFrame, steps: int) -> dict[int, float]:
    by_layer = (
        table.drop_nulls("layer").group_by("layer", maintain_order=True).agg(pl.col("rows").sum())
    )
    return {layer: rows / max(1, steps) for layer, rows in by_layer.iter_rows()}
