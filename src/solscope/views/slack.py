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

import os
from collections.abc import Callable, Sequence

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
    due = np.where(has_launch & (called > free), start, np.maximum(free, ready))
    queued = np.maximum(free - ready, 0)
    following = np.searchsorted(start, end, side="left")
    following = np.maximum(following, np.arange(start.size) + 1)
    begun, returned = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    kind, number = _back(end, called, has_launch, returned)
    slack = np.where(on_path > 0, 0, end.max() - end)
    host = int(end.max() - start.min())  # more than any activity has
    given = (kind, number, due, queued, following, end, _waited_for(end, returned), begun)
    walk: Callable[..., None] = _native_walk() or _walk
    walk(*(np.ascontiguousarray(column, np.int64) for column in given), slack, host)
    return slack


def _walk(
    kind: Int64s,
    number: Int64s,
    due: Int64s,
    queued: Int64s,
    following: Int64s,
    end: Int64s,
    work: Int64s,
    begun: Int64s,
    slack: Int64s,
    host: int,
) -> None:
    """Make each slack as small as what follows demands: the twin of `_native/slack.cpp`.

    `kind` and `number` are the moments, the last first; `work` and `begun` are about waits, the
    other columns about activities. `host` is how late the host may be.
    """
    dues, queues, after, ends = (column.tolist() for column in (due, queued, following, end))
    left, size = slack.tolist(), slack.size
    # Comparisons instead of `min` and `max`, which take most of the time of so short a loop.
    for what, at in zip(kind.tolist(), number.tolist(), strict=True):
        if what == _LAUNCH:
            late = left[at] + queues[at]
            if late < host:
                host = late
        elif what == _RETURN:
            waited_for = int(work[at])
            idle = int(begun[at]) - ends[waited_for]
            left[waited_for] = min(left[waited_for], host + max(0, idle))
            host += max(0, -idle)
        elif (behind := after[at]) < size:
            late = left[behind]
            if dues[behind] > ends[at]:
                late += dues[behind] - ends[at]
            if late < left[at]:
                left[at] = late
    slack[:] = left


def _native_walk() -> Callable[..., None] | None:
    """`_walk` in C++, where it was built and not forbidden."""
    if os.environ.get("SOLSCOPE_CORE") == "python":
        return None
    try:
        from solscope._native._slack import walk
    except ImportError:
        return None
    return walk


def _waited_for(end: Int64s, returned: Int64s) -> Int64s:
    """For each wait the activity that ended last before it returned."""
    order = np.argsort(end, kind="stable")
    ended = np.searchsorted(end[order], returned, side="right") - 1
    return order[np.maximum(ended, 0)]


def _back(
    end: Int64s, called: Int64s, has_launch: np.ndarray, returned: Int64s
) -> tuple[Int64s, Int64s]:
    """Ends of activities, launches and returns of waits: kinds and numbers; the last first."""
    launched = np.flatnonzero(has_launch)
    when = np.concatenate([end, returned, called[launched]])
    numbers = np.concatenate([np.arange(end.size), np.arange(returned.size), launched])
    kinds = np.repeat((_END, _RETURN, _LAUNCH), (end.size, returned.size, launched.size))
    # By time; of equal times, by kind and number, which is the order that they are in.
    order = np.argsort(when, kind="stable")[::-1]
    return kinds[order], numbers[order]


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
