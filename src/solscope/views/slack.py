"""Slack: how much later each activity could end without the recording ending later.

Everything else is taken to last as long as it did. Backward from the end, with the order of the
critical path (`views.critical_path`):

* An activity is followed by the first one that starts after it. That one does not start later as
  long as it still waits for its launch, or for other work that ends later.
* The host launches in its own order. A launch may be late for as long as its activity is queued,
  less the shortest latency of the recording; a call that waits for the GPU makes up for a late host
  by waiting less.
* A synchronizing call returns after all work before it, and what the host launches next is late
  with it; if that work had ended before the call, by the time since then less.

What is on the critical path has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import series
from solscope.intervals import Int64s

Wait = tuple[int, int]
"""Begin and return of a synchronizing call of the launching thread, whether it waited or not."""
_END, _RETURN, _LAUNCH = 0, 1, 2
"""Kinds of moments; of equal times, a launch comes last, and so first on the way back."""


class OperatorSlack(msgspec.Struct, frozen=True):
    """Activities of one operator: of the catalog, else of the framework, else a category."""

    operator: str
    activities: int
    time_ms: float
    on_path_ms: float
    least_slack_us: float
    """Of the activity that has least of it."""
    median_slack_us: float


def slacks(
    start: Int64s, end: Int64s, launch: Int64s, waits: Sequence[Wait], on_path: Int64s
) -> Int64s:
    """Nanoseconds for each activity, in order of start; `launch` is -1 where it is not known."""
    # A clock that is off may put a launch after the start of its activity.
    called = np.minimum(launch, start - 1)
    has_launch = launch >= 0
    latency = int((start - called)[has_launch].min()) if has_launch.any() else 0
    earlier = np.searchsorted(start, start, side="left")
    before = np.maximum.accumulate(end)[np.maximum(earlier - 1, 0)]
    free = np.where(earlier > 0, np.minimum(before, start), -1)
    ready = np.where(has_launch, np.minimum(called + latency, start), -1)
    due = np.where(has_launch & (called > free), start, np.maximum(free, ready)).tolist()
    queued = np.maximum(free - ready, 0).tolist()
    following = np.searchsorted(start, end, side="left")
    following = np.maximum(following, np.arange(start.size) + 1).tolist()
    waited_for = _waited_for(end, waits)
    ends, slack = end.tolist(), np.where(on_path > 0, 0, end.max() - end).tolist()
    host, size = int(end.max() - start.min()), len(slack)  # more than any activity has
    # Comparisons instead of `min` and `max`, which take most of the time of so short a loop.
    for kind, number in _back(end, called, has_launch, waits):
        if kind == _LAUNCH:
            late = slack[number] + queued[number]
            if late < host:
                host = late
        elif kind == _RETURN:
            work = waited_for[number]
            idle = waits[number][0] - ends[work]
            slack[work] = min(slack[work], host + max(0, idle))
            host += max(0, -idle)
        elif (after := following[number]) < size:
            late = slack[after]
            if due[after] > ends[number]:
                late += due[after] - ends[number]
            if late < slack[number]:
                slack[number] = late
    return np.array(slack, dtype=np.int64)


def _waited_for(end: Int64s, waits: Sequence[Wait]) -> list[int]:
    """For each wait the activity that ended last before it returned."""
    order = np.argsort(end, kind="stable")
    returns = np.array([returned for _, returned in waits], dtype=np.int64)
    ended = np.searchsorted(end[order], returns, side="right") - 1
    return order[np.maximum(ended, 0)].tolist()  # type: ignore[no-any-return]


def _back(
    end: Int64s, called: Int64s, has_launch: np.ndarray, waits: Sequence[Wait]
) -> Iterator[tuple[int, int]]:
    """Ends of activities, launches and returns of waits: kind and number; the last first."""
    launched = np.flatnonzero(has_launch)
    returns = np.array([returned for _, returned in waits], dtype=np.int64)
    when = np.concatenate([end, returns, called[launched]])
    numbers = np.concatenate([np.arange(end.size), np.arange(returns.size), launched])
    kinds = np.repeat((_END, _RETURN, _LAUNCH), (end.size, returns.size, launched.size))
    # By time; of equal times, by kind and number, which is the order that they are in.
    order = np.argsort(when, kind="stable")[::-1]
    return zip(kinds[order].tolist(), numbers[order].tolist(), strict=True)


def slack_by_operator(rows: pl.DataFrame, on_path: Int64s, slack: Int64s) -> list[OperatorSlack]:
    """Activities by operator, those with most time on the path first, then by time."""
    texts = [pl.col(name).cast(pl.String) for name in ("operator", "op", "category")]
    table = rows.select(pl.coalesce(texts).alias("name"), "dur_ns").with_columns(
        series("on_path", on_path), series("slack", slack)
    )
    grouped = (
        table.group_by("name")
        .agg(
            pl.len(),
            pl.col("dur_ns").sum(),
            pl.col("on_path").sum(),
            pl.col("slack").min().alias("least"),
            pl.col("slack").median().alias("median"),
        )
        .sort("on_path", "dur_ns", "name", descending=[True, True, False], nulls_last=True)
    )
    return [
        OperatorSlack(name or "other", count, time / 1e6, path / 1e6, least / 1e3, median / 1e3)
        for name, count, time, path, least, median in grouped.iter_rows()
    ]
