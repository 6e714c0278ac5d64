"""Lanes: intervals spread so that within one lane they nest or are disjoint, as viewers demand.

Viewers of Chrome traces draw a thread as a call stack: a slice that begins inside another and ends
after it is lost or drawn wrongly. Kernels of one stream may overlap like that (programmatic
launches, replayed graphs), and so may host events whose clocks were rounded.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from solscope.intervals import Int64s, nest

MAX_LANES = 64
"""Beyond this depth of overlap the last lane takes the rest, whatever it looks like."""


def lanes(start: Int64s, end: Int64s, weight: Int64s | None = None) -> Int64s:
    """A lane number for each interval, 0 for nearly all.

    Where two overlap only in part, the one of greater `weight` stays in lane 0; of equals, the one
    that began first.
    """
    end = np.maximum(end, start + 1)
    parent = nest(start, end)
    if not ((parent >= 0) & (end[np.maximum(parent, 0)] < end)).any():
        return np.zeros(start.size, dtype=np.int64)
    weight = np.zeros(start.size, dtype=np.int64) if weight is None else weight
    order = np.lexsort((-end, start)).tolist()
    ends = end.tolist()
    moved = _moved(order, start.tolist(), ends, weight.tolist())
    return _spread(moved, start.tolist(), ends)


def lanes_of(table: pl.DataFrame, keys: list[str]) -> pl.Series:
    """Lanes of the rows of each thread; `table` has the keys, `start_ns`, `dur_ns`, `weight`."""
    lane_of = np.zeros(table.height, dtype=np.int64)
    columns = ["start_ns", "dur_ns", "weight"]
    for thread in table.select(*keys, *columns).with_row_index("at").partition_by(keys):
        start, dur, weight = (thread[name].to_numpy() for name in columns)
        lane_of[thread["at"].to_numpy()] = lanes(start, start + dur, weight)
    return pl.Series("lane", lane_of)


def _moved(order: list[int], start: list[int], end: list[int], weight: list[int]) -> list[int]:
    """Indices that cannot stay in lane 0, in order of their start."""
    moved: list[int] = []
    stack: list[int] = []
    for i in order:
        while stack and end[stack[-1]] <= start[i]:
            stack.pop()
        while stack and end[stack[-1]] < end[i] and weight[stack[-1]] < weight[i]:
            moved.append(stack.pop())
        if stack and end[stack[-1]] < end[i]:
            moved.append(i)
        else:
            stack.append(i)
    return sorted(moved, key=lambda i: (start[i], -end[i]))


def _spread(moved: list[int], start: list[int], end: list[int]) -> Int64s:
    """Every moved interval into the first further lane in which it fits."""
    lane = np.zeros(len(start), dtype=np.int64)
    stacks: list[list[int]] = []
    for i in moved:
        for index, stack in enumerate(stacks):
            while stack and end[stack[-1]] <= start[i]:
                stack.pop()
            if not stack or end[stack[-1]] >= end[i] or index == MAX_LANES - 2:
                break
        else:
            index, stack = len(stacks), []
            stacks.append(stack)
        stack.append(i)
        lane[i] = index + 1
    return lane
