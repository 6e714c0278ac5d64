"""Kernels that lost their launch, and the same kernel in the same sequence elsewhere.

A recording that starts or stops in the middle of a step shows kernels without the calls that made
them. Models repeat: the same kernels, before and after, ran elsewhere with their operators. A lost
kernel has twins if all kernels with the same name, grid and neighbors on their stream agree on
operator and inputs.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.intervals import Int64s

NAMELESS = 1 << 40
"""Stands for the name of an activity that has none; no category has that many values."""
REACHES = ((16, 16), (8, 8), (4, 4), (2, 2), (0, 8), (8, 0))
"""Neighbors before and after that must be the same, most first."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number with well-mixed bits, for sums of numbers that stand for sequences."""


def find_twins(activities: pl.DataFrame) -> dict[int, int]:
    """For positions in `activities` of lost kernels, the position of a twin.

    Needs `signature` (a number per distinct operator and inputs), `call_turn` (which kernel of its
    call an activity is) and `call_kernels`; null without operator.
    """
    lost = activities["launch_row"].is_null() & activities["graph_node"].is_null()
    lost = lost & activities["op_row"].is_null() & (activities["kind"] != "graph")
    signed = activities["signature"].is_not_null()
    if not lost.any() or not signed.any():
        return {}
    facts = activities.select(
        pl.col("grid").to_physical().cast(pl.Int64).fill_null(-1),
        *(pl.col(n).cast(pl.Int64) for n in ("signature", "call_turn", "call_kernels")),
    ).fill_null(-1)
    table, streams = facts.to_numpy(), by_stream(activities)
    names = activities["name"].to_physical().cast(pl.UInt64).fill_null(NAMELESS).to_numpy()
    open_, lenders = lost.to_numpy().copy(), signed.to_numpy()
    twins: dict[int, int] = {}
    for before, after in REACHES:
        keys = np.zeros(activities.height, np.uint64)
        for stream_rows in streams:
            keys[stream_rows] = _sequences(names[stream_rows], before, after)
        fresh = _agreed(keys, table, open_, lenders)
        twins |= fresh
        open_[list(fresh)] = False
    return twins


def by_stream(activities: pl.DataFrame) -> list[Int64s]:
    """Positions by stream, in order of start."""
    work = activities.select("rank", "device", "stream", "start_ns", at=pl.int_range(pl.len()))
    ordered = work.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    return [p["at"].to_numpy() for p in ordered.partition_by(["rank", "device", "stream"])]


def _sequences(names: np.ndarray, before: int, after: int) -> np.ndarray:
    """A number per position that is the same where the names around it are the same.

    A polynomial hash: with one neighbor on each side, the kernel b of the sequence a b c gets
    ((a * F) + b) * F + c, wrapped to 64 bits, where F is `_FACTOR`. Order counts, so c b a gets
    another number. Names are mixed first, because categories are small numbers in a row, whose sums
    would meet. Beyond the ends of a stream, neighbors are 0, so that its first kernel matches only
    the first one of another stream. With 64 bits, sequences that differ hardly ever meet.
    """
    mixed = (names + np.uint64(1)) * _FACTOR
    mixed ^= mixed >> np.uint64(29)
    edge = [np.zeros(size, np.uint64) for size in (before, after)]
    padded = np.concatenate([edge[0], mixed, edge[1]])
    total = np.zeros(names.size, np.uint64)
    for shift in range(before + after + 1):
        total = total * _FACTOR + padded[shift : shift + names.size]
    return total


def _agreed(
    keys: np.ndarray, table: Int64s, open_: np.ndarray, lenders: np.ndarray
) -> dict[int, int]:
    """Lost positions whose lenders with the same key and grid all agree, with one of these.

    A grid that was not recorded fits any.
    """
    asked = np.flatnonzero(open_)
    wanted = set(keys[asked].tolist())
    candidates = np.flatnonzero(lenders & np.isin(keys, keys[asked]))
    by_key: dict[int, list[int]] = {key: [] for key in wanted}
    for row, key in zip(candidates.tolist(), keys[candidates].tolist(), strict=True):
        by_key[key].append(row)
    agreed: dict[int, int] = {}
    for row, key in zip(asked.tolist(), keys[asked].tolist(), strict=True):
        lenders_here = by_key[key]
        rows = table[lenders_here]
        fits = (rows[:, 0] == table[row, 0]) | (rows[:, 0] < 0) | (table[row, 0] < 0)
        same = rows[fits]
        if same.size and (same[:, 1:] == same[0, 1:]).all():
            agreed[row] = lenders_here[int(np.flatnonzero(fits)[0])]
    return agreed
