"""Stages of a pipeline: who hands work to whom, and how long each stage has nothing to do.

A rank that receives what another one sends is a stage behind it. Waiting for the stage before is
no lateness of a rank: stages take turns, and a delay of the first one is seen at all others. What
a stage costs is how long its GPU is occupied: work flows no faster than through the stage that is
occupied longest, and the step would be shorter by what this stage has more than the next one. Time
in which nothing is launched does not count: a host that launches ahead hides it behind the waiting,
except in the first stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from solscope.ranks.kinds import SYNCHRONIZING
from solscope.ranks.match import Matched
from solscope.ranks.waiting import Waiting
from solscope.run import Run

Floats = NDArray[np.float64]


class Stage(msgspec.Struct, frozen=True):
    """One stage, per step; the mean of its ranks."""

    stage: int
    ranks: list[int]
    compute_ms: float
    receive_ms: float
    """Waiting for the stage before to send."""
    send_ms: float
    """Waiting for the stage behind to receive."""
    other_ms: float
    """Waiting in other calls between stages, such as the broadcast of the chosen tokens."""
    host_ms: float
    """Nothing runs and nothing is launched."""
    held_ms: float
    bubble_pct: float
    """Waiting for other stages, of the step."""


class Pipeline(msgspec.Struct, frozen=True):
    """The stages, in the order in which work passes through them."""

    stages: list[Stage]
    bubble_pct: float
    """Mean over stages."""
    occupied_longest: int
    """The stage whose GPU computes, or holds work that was launched, for longest."""


@dataclass(frozen=True)
class Stages:
    """The stage of each rank, by position; -1 where a rank neither sends nor receives."""

    of: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.of.max()) + 1


def find_stages(run: Run, matched: Matched) -> Stages | None:
    """Stages by who sends to whom; null without messages, or when they go round in a circle."""
    edges = _messages(run, matched)
    if not edges:
        return None
    stage = np.full(len(run.ranks), -1)
    for pair in edges:
        stage[list(pair)] = 0
    # The longest way from a rank that nobody sends to; it has at most one message per rank.
    for _ in range(len(run.ranks)):
        behind = {after: stage[before] + 1 for before, after in edges}
        for before, after in edges:
            behind[after] = max(behind[after], stage[before] + 1)
        moved = [after for after, number in behind.items() if stage[after] < number]
        if not moved:
            return Stages(stage)
        for after in moved:
            stage[after] = behind[after]
    return None


def _messages(run: Run, matched: Matched) -> set[tuple[int, int]]:
    """Positions of ranks that send to one another: sender, receiver."""
    place = {rank.rank: rank_index for rank_index, rank in enumerate(run.ranks)}
    pairs = set()
    between = (matched.table["kind"] == "send_receive").to_numpy()
    for rank_index, rank in enumerate(run.ranks):
        rows = matched.index[between & (matched.index[:, rank_index] >= 0), rank_index]
        calls = rank.calls[rows].filter(pl.col("kind") == "send")
        pairs |= {(rank_index, place[peer]) for peer in calls["peer"].drop_nulls() if peer in place}
    return pairs


def stage_costs(run: Run, stages: Stages, steps: NDArray[np.int64], shifts: list[int]) -> Floats:
    """What the stage that is occupied longest has more than the next one, by step and rank, ns."""
    occupied = np.full((steps.size, stages.count), np.nan)
    by_rank = np.full((steps.size, len(run.ranks)), np.nan)
    for rank_index, (rank, shift) in enumerate(zip(run.ranks, shifts, strict=True)):
        gpu = rank.steps.select(pl.col("step") + shift, ns=pl.col("compute_ns") + pl.col("held_ns"))
        lengths = dict(gpu.iter_rows())
        by_rank[:, rank_index] = [lengths.get(step, np.nan) for step in steps.tolist()]
    for number in range(stages.count):
        # Ranks of one stage work at the same time.
        occupied[:, number] = np.nanmean(by_rank[:, stages.of == number], axis=1)
    cost = np.zeros(by_rank.shape)
    if stages.count < 2:
        return cost
    two = np.sort(occupied, axis=1)[:, -2:]
    longest = np.argmax(occupied, axis=1)
    for row, number in enumerate(longest):
        of_stage = stages.of == number
        # One rank stands for its stage: the one that is occupied longest.
        rank_index = int(np.nanargmax(np.where(of_stage, by_rank[row], -np.inf)))
        cost[row, rank_index] = max(0.0, two[row, 1] - two[row, 0])
    return cost


def describe(
    run: Run,
    matched: Matched,
    split: Waiting,
    stages: Stages,
    counted: NDArray[np.bool_],
    rank_steps: list[pl.DataFrame],
    lengths: list[int],
) -> Pipeline:
    """The stages with their times; `lengths` are those of all counted steps, by rank, ns."""
    rows = []
    for number in range(stages.count):
        members = np.flatnonzero(stages.of == number).tolist()
        each = [
            _of_rank(
                run,
                matched,
                split,
                counted,
                rank_index,
                rank_steps[rank_index],
                lengths[rank_index],
            )
            for rank_index in members
        ]
        mean = {name: float(np.mean([stage[name] for stage in each])) for name in each[0]}
        step = mean.pop("step_ms")
        away = mean["receive_ms"] + mean["send_ms"] + mean["other_ms"]
        numbers = [run.ranks[rank_index].rank for rank_index in members]
        rows.append(Stage(number, numbers, **mean, bubble_pct=100 * away / step if step else 0.0))
    longest = max(rows, key=lambda row: row.compute_ms + row.held_ms)
    bubble = float(np.mean([row.bubble_pct for row in rows]))
    return Pipeline(rows, bubble, longest.stage)


def _of_rank(
    run: Run,
    matched: Matched,
    split: Waiting,
    counted: NDArray[np.bool_],
    rank_index: int,
    steps: pl.DataFrame,
    length: int,
) -> dict[str, float]:
    per = 1e6 * max(1, steps.height)
    mine = counted & (matched.index[:, rank_index] >= 0)
    wait = np.nan_to_num(split.wait[mine, rank_index])
    kind = run.ranks[rank_index].calls["kind"].gather(matched.index[mine, rank_index]).to_numpy()
    between = ~np.isin(kind, list(SYNCHRONIZING))
    received, sent = kind == "receive", kind == "send"
    return {
        "step_ms": length / per,
        "compute_ms": int(steps["compute_ns"].sum()) / per,
        "receive_ms": float(wait[received].sum()) / per,
        "send_ms": float(wait[sent].sum()) / per,
        "other_ms": float(wait[between & ~received & ~sent].sum()) / per,
        "host_ms": int(steps["idle_ns"].sum()) / per,
        "held_ms": int(steps["held_ns"].sum()) / per,
    }
