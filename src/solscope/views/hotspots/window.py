"""The steps that a work list is about."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from solscope.attribution import Attributed


@dataclass(frozen=True)
class Window:
    """The steps that the means are over."""

    phase: str | None
    count: int
    step_ns: float
    steps: pl.DataFrame
    """`step`, `start_ns`, `end_ns`; empty when no whole step was found."""

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of these steps; all of them when there are none."""
        return (
            rows.filter(pl.col("step").is_in(self.steps["step"].to_list())) if self.count else rows
        )

    def per_step(self, nanoseconds: float) -> float:
        """A sum over all steps as µs per step."""
        return nanoseconds / 1e3 / max(1, self.count)

    def pct(self, time_us: float) -> float:
        return 100e3 * time_us / self.step_ns if self.step_ns else 0.0


def step_window(attributed: Attributed) -> Window:
    """The whole steps of the phase that takes most time; the profile where there is none."""
    return step_windows(attributed)[0]


def step_windows(attributed: Attributed) -> list[Window]:
    """The whole steps of each phase, that with most time first; the profile where there is none."""
    first = (pl.col("process") == 0) & ~pl.col("cut") & pl.col("start_ns").is_not_null()
    whole = attributed.steps.filter(first).with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    )
    if whole.is_empty():
        rows = attributed.activities.filter(pl.col("start_ns").is_not_null())
        ends = rows["start_ns"] + rows["dur_ns"].fill_null(0)
        span = (
            0 if rows.is_empty() else int(ends.to_numpy().max() - rows["start_ns"].to_numpy().min())
        )
        return [Window(None, 0, float(span), whole)]
    parts = whole.partition_by("phase", maintain_order=True)
    parts.sort(key=lambda steps: -int(steps["dur_ns"].sum()))
    return [
        Window(steps["phase"][0], steps.height, int(steps["dur_ns"].sum()) / steps.height, steps)
        for steps in parts
    ]
