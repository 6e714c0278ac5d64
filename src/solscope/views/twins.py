"""Kernels that lost their launch, and the same kernel in the same sequence elsewhere.

A recording that starts or stops in the middle of a step shows kernels without the calls that made
them. Models repeat: the same kernels, before and after, ran elsewhere with their operators. A lost
kernel takes the operator and inputs of its twins if all kernels with the same name, grid and
neighbors on their stream agree on them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl

from solscope.intervals import Int64s

REACHES = ((16, 16), (8, 8), (4, 4), (2, 2), (0, 8), (8, 0))
"""Neighbors before and after that must be the same, most first."""


@dataclass(frozen=True)
class Twin:
    """What a lost kernel takes over."""

    op_row: int
    """An operator call with the same inputs."""
    turn: int
    """Which kernel of its call it is."""
    kernels: int
    """How many kernels such a call has."""


def find_twins(activities: pl.DataFrame, signature: pl.Series) -> dict[int, Twin]:
    """For positions in `activities` of lost kernels, what they take over.

    `signature` numbers the distinct (operator, inputs) of each activity; null without operator.
    """
    lost = activities["launch_row"].is_null() & activities["graph_node"].is_null()
    lost = lost & activities["op_row"].is_null() & (activities["kind"] != "graph")
    if not lost.any() or lost.all():
        return {}
    stream = _streams(activities)
    table = activities.select(
        pl.col("grid").to_physical().cast(pl.Int64).fill_null(-1),
        pl.col("op_row").cast(pl.Int64).fill_null(-1),
        turn=_turn().cast(pl.Int64).fill_null(-1),
        kernels=pl.len().over("op_row").cast(pl.Int64),
        signature=signature.cast(pl.Int64).fill_null(-1),
    ).to_numpy()
    found: dict[int, Twin] = {}
    open_ = set(np.flatnonzero(lost.to_numpy()).tolist())
    for before, after in REACHES:
        known, asked = _by_neighbors(stream, table, open_, before, after)
        for key, positions in asked.items():
            for at in positions:
                twin = _agreed(table, known.get(key, []), table[at, 0])
                if twin is not None:
                    found[at] = twin
        open_ -= found.keys()
    return found


def _streams(activities: pl.DataFrame) -> list[tuple[Int64s, Int64s]]:
    """Per stream the positions in order of start, and their names as numbers."""
    names = activities["name"].to_physical().cast(pl.Int64).to_numpy()
    work = activities.select("rank", "device", "stream", "start_ns", at=pl.int_range(pl.len()))
    ordered = work.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    parts = [p["at"].to_numpy() for p in ordered.partition_by(["rank", "device", "stream"])]
    return [(at, names[at]) for at in parts]


def _turn() -> pl.Expr:
    return pl.col("start_ns").rank("ordinal").over("op_row") - 1


def _by_neighbors(
    streams: list[tuple[Int64s, Int64s]], table: Int64s, lost: set[int], before: int, after: int
) -> tuple[dict[bytes, list[int]], dict[bytes, list[int]]]:
    """Positions with an operator, and lost ones, by the names around them."""
    known: dict[bytes, list[int]] = defaultdict(list)
    asked: dict[bytes, list[int]] = defaultdict(list)
    wanted = {int(name) for at, names in streams for name in names[np.isin(at, list(lost))]}
    for at, names in streams:
        padded = np.concatenate([np.full(before, -1), names, np.full(after, -1)])
        for place in np.flatnonzero(np.isin(names, list(wanted))):
            position = int(at[place])
            if position not in lost and table[position, 4] < 0:
                continue
            key = padded[place : place + before + after + 1].tobytes()
            (asked if position in lost else known)[key].append(position)
    return known, asked


def _agreed(table: Int64s, positions: list[int], grid: int) -> Twin | None:
    """What all twins with the same grid agree on; a grid that was not recorded fits any."""
    rows = table[positions] if positions else table[:0]
    same = rows[(rows[:, 0] == grid) | (rows[:, 0] < 0)] if grid >= 0 else rows
    if not same.size or (same[:, 2:] != same[0, 2:]).any():
        return None
    return Twin(op_row=int(same[0, 1]), turn=int(same[0, 2]), kernels=int(same[0, 3]))


def group_twins(activities: pl.DataFrame, twins: dict[int, Twin]) -> dict[int, int]:
    """From position to the position of the first kernel of its call, for whole calls only."""
    calls: dict[int, int] = {}
    for at, _ in _streams(activities):
        run: list[int] = []
        for position in map(int, at):
            twin = twins.get(position)
            if twin is None or not _continues(twins, run, twin):
                run = []
            if twin is None or (not run and twin.turn != 0):
                continue
            run.append(position)
            if len(run) == twin.kernels:
                calls |= dict.fromkeys(run, run[0])
                run = []
    return calls


def _continues(twins: dict[int, Twin], run: list[int], twin: Twin) -> bool:
    return bool(run) and twin.turn == len(run) and twins[run[0]].kernels == twin.kernels
