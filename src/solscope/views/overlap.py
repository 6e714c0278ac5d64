"""What ran at the same time: which work is hidden, and under which.

Where several activities run at once, one of them covers the others: work of the model covers
communication and copies, else the one that started first. Every nanosecond of an activity that is
covered counts once, so the sums are exactly what overlaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from solscope.attribution.role_names import OTHER

MOVES_DATA = ("comm", "memcpy", "memset")
"""Categories that are hidden under all others."""

Pair = tuple[str, str]
"""What is hidden, and under what."""


def overlaps(rows: pl.DataFrame, unit: Sequence[str]) -> Counter[Pair]:
    """Nanoseconds of each pair; only activities with the same values of `unit` overlap."""
    label = pl.col("role").cast(pl.String)
    labeled = label.is_not_null() & (label != OTHER)
    table = rows.select(
        *unit,
        "start_ns",
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        pl.col("category").cast(pl.String).is_in(MOVES_DATA).alias("moves"),
        pl.when(labeled).then(label).otherwise(pl.col("category").cast(pl.String)).alias("label"),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
    ordered = table.sort(*unit, "start_ns", "end_ns", nulls_last=True, maintain_order=True)
    before = pl.col("end_ns").cum_max().shift(1).over(unit)
    after = pl.col("start_ns").shift(-1).over(unit)
    together = ordered.filter(
        (pl.col("start_ns") < before).fill_null(False) | (after < pl.col("end_ns")).fill_null(False)
    )
    times: Counter[Pair] = Counter()
    for group in together.partition_by(unit):
        columns = (group[name].to_list() for name in ("start_ns", "end_ns", "moves", "label"))
        _sweep(list(zip(*columns, strict=True)), times)
    return times


_Activity = tuple[int, int, bool, str]


def _sweep(activities: list[_Activity], times: Counter[Pair]) -> None:
    """Add what overlaps among activities in the order of their start."""
    running: list[_Activity] = []
    now = 0
    for activity in activities:
        now = _advance(running, now, activity[0], times)
        running.append(activity)
    _advance(running, now, max((end for _, end, _, _ in running), default=now), times)


def _advance(running: list[_Activity], now: int, until: int, times: Counter[Pair]) -> int:
    """Count what overlaps from `now` on, and drop what ends, up to `until`."""
    while running and now < until:
        stop = min(until, *(end for _, end, _, _ in running))
        cover = min(running, key=lambda a: (a[2], a[0]))
        for hidden in running:
            if hidden is not cover:
                times[hidden[3], cover[3]] += stop - now
        now = stop
        running[:] = [activity for activity in running if activity[1] > now]
    return until
