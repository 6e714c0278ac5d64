"""Savings that hold together: no set of rows promises more than a step has.

* Work saves only time in which it runs alone. What runs beside other work can shrink, and the step
  stays as long as the other work.
* Communication is saved by computing that hides it: no more than is left of that once it got
  faster, and does not hide communication already.
* Whatever remains beyond the step is taken off the smallest rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from solscope.arrays import series
from solscope.attribution import Attributed
from solscope.intervals import alone
from solscope.views.costs import CallTable
from solscope.views.device_time import bounds
from solscope.views.hotspots.base import Hotspot
from solscope.views.hotspots.window import Window

SHORTENS_COMPUTING = ("operator", "fusion")


def with_time_alone(
    calls: pl.DataFrame, attributed: Attributed, table: CallTable, window: Window
) -> pl.DataFrame:
    """Calls with `alone_ns`, the time in which nothing else ran on their device."""
    timed = pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    every = attributed.activities.select("row", "rank", "device", "step", *_TIMES)
    rows = window.of(every).filter(timed)
    parts = [
        device.select("row", series("alone_ns", alone(*bounds(device))))
        for device in rows.partition_by(["rank", "device"], maintain_order=True)
    ]
    if not parts:
        return calls.with_columns(pl.lit(0, pl.Int64).alias("alone_ns"))
    of_call = (
        pl.concat(parts)
        .join(table.activities, on="row")
        .group_by("call")
        .agg(pl.col("alone_ns").sum())
    )
    joined = calls.join(of_call, on="call", how="left", maintain_order="left")
    return joined.with_columns(pl.col("alone_ns").fill_null(0))


_TIMES = ("start_ns", "dur_ns")


def additive(
    rows: Sequence[Hotspot],
    compute_us: float,
    step_us: float,
    hidden_us: float | None = None,
) -> list[Hotspot]:
    """The rows with savings that hold together, largest first; those that save nothing left out.

    `compute_us` is the time of a step in which anything computes; `hidden_us` how much
    communication it hides already, by default all that these rows do not save.
    """
    shorter = sum(row.recoverable_us for row in rows if row.kind in SHORTENS_COMPUTING)
    if hidden_us is None:
        hidden_us = sum(row.time_us - row.recoverable_us for row in rows if row.kind == "comm")
    return _within(_hidden(_ranked(rows), compute_us - shorter - hidden_us), step_us)


def _hidden(rows: Sequence[Hotspot], room_us: float) -> list[Hotspot]:
    """Communication saves no more than there is computing to hide it under."""
    capped = []
    for row in rows:
        saved = row.recoverable_us
        if row.kind == "comm":
            saved = min(saved, max(0.0, room_us))
            room_us -= saved
        capped.append(_less(row, saved, "of computing is left to hide it under"))
    return _ranked(capped)


def _within(rows: Sequence[Hotspot], step_us: float) -> list[Hotspot]:
    left = step_us
    capped = []
    for row in rows:
        saved = min(row.recoverable_us, max(0.0, left))
        left -= saved
        capped.append(_less(row, saved, "is left of the step with the rows above"))
    return _ranked(capped)


def _less(row: Hotspot, saved_us: float, what: str) -> Hotspot:
    """A row that saves less than it would alone, and why."""
    if saved_us >= row.recoverable_us:
        return row
    share = saved_us / row.recoverable_us
    return msgspec.structs.replace(
        row,
        recoverable_us=saved_us,
        recoverable_pct_of_step=row.recoverable_pct_of_step * share,
        why=f"{row.why}; only {saved_us:,.2f} µs {what}",
    )


def _ranked(rows: Sequence[Hotspot]) -> list[Hotspot]:
    saving = [row for row in rows if row.recoverable_us > 0]
    return sorted(saving, key=lambda row: -row.recoverable_us)
