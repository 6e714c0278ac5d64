"""The steps of a profile along its time line, with how long the GPU worked in each."""

from __future__ import annotations

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.intervals import Int64s, overlap, union

MOST = 2_000
"""Steps that a time line shows; of more, the first ones."""


class TimelineStep(msgspec.Struct, frozen=True):
    """One step; times are from the first GPU activity of the profile."""

    step: int
    name: str
    phase: str | None
    start_ms: float
    time_ms: float
    """From the first start to the last end of its GPU activities."""
    busy_ms: float
    """Union of the GPU activities of the device during the step."""
    requests: int | None
    tokens: int | None
    cut: bool
    """The profile shows only a part of it."""


class Timeline(msgspec.Struct, frozen=True):
    """Steps of the first device in order of time."""

    span_ms: float
    steps: list[TimelineStep]
    left_out: int
    """Steps beyond those listed."""


def timeline(attributed: Attributed) -> Timeline:
    """The steps of the first process; empty for a summary, which has no time line."""
    timed = attributed.activities.filter(
        pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    )
    steps = attributed.steps.filter(
        (pl.col("process") == 0) & pl.col("start_ns").is_not_null()
    ).sort("start_ns")
    if timed.is_empty():
        return Timeline(0.0, [], 0)
    first = timed["device"].drop_nulls().min()
    own = timed if first is None else timed.filter(pl.col("device") == first)
    start = _int64(own["start_ns"])
    busy = union(start, start + _int64(own["dur_ns"]))
    origin = int(start.min())
    shown = steps.head(MOST)
    begin, end = _int64(shown["start_ns"]), _int64(shown["end_ns"])
    worked = overlap(begin, end, busy)
    return Timeline(
        span_ms=(int(busy.end.max()) - origin) / 1e6,
        steps=[
            TimelineStep(
                step=row["step"],
                name=row["name"],
                phase=row["phase"],
                start_ms=(row["start_ns"] - origin) / 1e6,
                time_ms=(row["end_ns"] - row["start_ns"]) / 1e6,
                busy_ms=ns / 1e6,
                requests=row["requests"],
                tokens=row["tokens"],
                cut=row["cut"],
            )
            for row, ns in zip(shown.iter_rows(named=True), worked.tolist(), strict=True)
        ],
        left_out=max(0, steps.height - MOST),
    )


def _int64(series: pl.Series) -> Int64s:
    return series.cast(pl.Int64).to_numpy()
