"""Queue depth over time: activities that are launched and not finished.

At 0 the GPU has nothing to do until the host launches more. The span is cut into equal parts, whose
means, weighted by their length, give the mean of the span.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from solscope.intervals import Int64s, covered_before, union
from solscope.views.device_time import DeviceTime, bounds
from solscope.views.percent import percent_of

PARTS = 60
"""Parts of the span; fewer where it has fewer nanoseconds."""


class QueuePart(msgspec.Struct, frozen=True):
    """The queue in one part of the span."""

    start_ms: float
    """From the first start of an activity."""
    mean: float
    """Activities launched and not finished."""
    most: int
    empty_pct: float | None
    """Share of this part with none."""


class LaunchQueue(msgspec.Struct, frozen=True):
    """The queue of one GPU."""

    mean: float
    empty_pct: float | None
    parts: list[QueuePart]


def launch_queue(time: DeviceTime, launches: pl.DataFrame) -> LaunchQueue | None:
    """The queue from the first activity to the last; null without a linked launch."""
    linked = time.rows.select(pl.col("launch_row").alias("row"), "start_ns", "dur_ns").join(
        launches.select("row", pl.col("start_ns").alias("called")), on="row"
    )
    if linked.is_empty():
        return None
    first, last = int(time.busy.start[0]), int(time.busy.end[-1])
    ended = bounds(linked)[1] - first
    called = np.minimum(np.maximum(linked["called"].to_numpy() - first, 0), ended)
    span = max(1, last - first)
    count = min(PARTS, span)
    edges = np.arange(count + 1, dtype=np.int64) * span // count
    filled = covered_before(union(called, ended), edges)
    # The area under the depth up to each edge: time since every launch, less that since every end.
    area = _time_since(called, edges) - _time_since(ended, edges)
    length, held, busy = (np.diff(values).tolist() for values in (edges, area, filled))
    rows = zip(edges.tolist(), length, held, busy, _most(called, ended, edges), strict=False)
    return LaunchQueue(
        mean=int(area[-1]) / span,
        empty_pct=percent_of(span - int(filled[-1]), span),
        parts=[
            QueuePart(start / 1e6, spent / ns, deepest, percent_of(ns - worked, ns))
            for start, ns, spent, worked, deepest in rows
        ],
    )


def _time_since(moments: Int64s, edges: Int64s) -> Int64s:
    """For each edge, the sum of the times since the moments before it."""
    ordered = np.sort(moments)
    before = np.searchsorted(ordered, edges, side="right")
    sums = np.concatenate(([0], np.cumsum(ordered)))
    return np.asarray(before * edges - sums[before], dtype=np.int64)


def _most(called: Int64s, ended: Int64s, edges: Int64s) -> list[int]:
    """The largest depth in each part."""
    when = np.concatenate([ended, called])
    change = np.repeat((-1, 1), called.size)
    order = np.argsort(when, kind="stable")  # of equal times, ends come first
    when, depth = when[order], np.cumsum(change[order])
    begin = np.searchsorted(when, edges[:-1], side="right") - 1
    end = np.searchsorted(when, edges[1:], side="left")
    return [
        int(depth[max(lo, 0) : hi].max()) if hi > max(lo, 0) else 0
        for lo, hi in zip(begin.tolist(), end.tolist(), strict=True)
    ]
