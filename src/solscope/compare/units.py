"""Units: what a time is taken per, before anything is compared.

A unit is the whole steps of one phase in one profile, or a whole profile when steps cannot be
compared. Steps that the profile shows only in part belong to no unit. For the steps of a unit,

    GPU time - overlapped + idle = extent,    extent + gap = step time

on average: *extent* is from the first start to the last end of a step's activities, *overlapped* is
what ran at the same time as something else on its GPU, *gap* is from the end of a step to the start
of the next one of any phase (negative where steps overlap). The profile's last step has no gap; it
counts for the extent only. With several GPUs in a profile, times are means over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.intervals import union
from solscope.profile import ProfileWarning

WHOLE = "whole_profile"
"""`found_by` of a profile in which no steps were seen."""

_KEYS = ("category", "operator", "group", "role", "name")


class ComparedPhase(msgspec.Struct, frozen=True):
    """A phase of several profiles, and what its times are per."""

    phase: str | None
    per: Literal["step", "profile"]
    """`profile`: totals of whole profiles, which may have done different amounts of work."""


@dataclass(frozen=True)
class Unit:
    """Steps of one phase in one profile; without steps, the whole profile."""

    steps: pl.DataFrame
    """`step`, `extent_ns`, `gap_ns`, their sum `time_ns` (both null for the profile's last), and
    what annotations state: `requests`, `tokens`. Empty for a whole profile."""
    rows: pl.DataFrame
    """`step`, `category`, `operator`, `group`, `role`, `name`, `calls`, `total_ns`."""
    devices: int
    busy_ns: int | None
    """Time in which a GPU worked, summed over steps and GPUs; null for a whole profile."""

    @property
    def count(self) -> int:
        """Steps; 1 for a whole profile."""
        return max(1, self.steps.height)

    @property
    def divisor(self) -> int:
        """What totals are divided by: steps times GPUs; 1 for a whole profile."""
        return self.count * self.devices

    @property
    def gpu_ns(self) -> int:
        """Durations of all activities."""
        return int(self.rows["total_ns"].sum())

    @property
    def overlapped_ns(self) -> int:
        """Activity time that overlaps other activity of the same GPU."""
        return self.gpu_ns - (self.busy_ns or 0)

    @property
    def idle_ns(self) -> int:
        """Time inside steps in which a GPU did nothing."""
        return int(self.steps["extent_ns"].sum()) * self.devices - (self.busy_ns or 0)

    @property
    def gap_ms(self) -> float:
        """Mean gap of the steps that another follows; 0 when there are none."""
        gaps = self.steps["gap_ns"]
        return int(gaps.sum()) / max(1, gaps.count()) / 1e6


def phase_names(phases: Iterable[str | None]) -> str:
    """The phases that something has, for reading."""
    return ", ".join(phase or "not known" for phase in phases) or "no steps"


def labelled(warnings: Iterable[ProfileWarning], label: str) -> Iterator[ProfileWarning]:
    """Warnings of one side of a comparison, with its label."""
    for warning in warnings:
        yield msgspec.structs.replace(warning, message=f"{label}: {warning.message}")


def phases_of(attributed: Attributed) -> list[str | None]:
    """Phases that whole steps have, null for a phase not known; empty without steps."""
    steps = whole_steps(attributed)
    return steps["phase"].cast(pl.String).unique(maintain_order=True).to_list()


def shared_phases(profiles: Sequence[Attributed]) -> list[str | None]:
    """Phases that every profile has, in the order of the first; known ones alone if there are."""
    sets = [set(phases_of(profile)) for profile in profiles]
    shared = [p for p in phases_of(profiles[0]) if all(p in phases for phases in sets)]
    return [p for p in shared if p is not None] or shared


def whole_steps(attributed: Attributed) -> pl.DataFrame:
    """Complete steps, with their times."""
    steps = attributed.steps.filter(pl.col("start_ns").is_not_null()).sort("start_ns")
    following = pl.col("start_ns").shift(-1)
    return (
        steps.with_columns(
            (pl.col("end_ns") - pl.col("start_ns")).alias("extent_ns"),
            (following - pl.col("end_ns")).alias("gap_ns"),
            (following - pl.col("start_ns")).alias("time_ns"),
        )
        .filter(~pl.col("cut") & (pl.col("found_by") != WHOLE))
        .select("step", "phase", "extent_ns", "gap_ns", "time_ns", "requests", "tokens")
    )


def steps_unit(attributed: Attributed, phase: str | None) -> Unit:
    """The whole steps of one phase."""
    steps = whole_steps(attributed).filter(pl.col("phase").cast(pl.String).eq_missing(phase))
    wanted = pl.col("step").is_in(steps["step"].to_list()) & pl.col("start_ns").is_not_null()
    rows = attributed.activities.filter(wanted).with_columns(pl.col("dur_ns").fill_null(0))
    return Unit(
        steps=steps.drop("phase"),
        rows=_activity_rows(rows),
        devices=max(1, rows.select("rank", "device").n_unique()),
        busy_ns=sum(
            _busy(step_rows) for step_rows in rows.partition_by(["rank", "device", "step"])
        ),
    )


def profile_unit(attributed: Attributed) -> Unit:
    """Everything in the profile, as totals."""
    rows = attributed.activities.with_columns(pl.col("dur_ns").fill_null(0))
    if attributed.profile.is_aggregate:
        none = [pl.lit(None, pl.String).alias(key) for key in ("operator", "group", "role")]
        table = attributed.aggregates.with_columns(pl.lit(0, pl.Int32).alias("step"), *none)
        rows = table.select("step", *_KEYS, "calls", "total_ns")
    else:
        rows = _activity_rows(rows)
    return Unit(whole_steps(attributed).drop("phase").clear(), rows, 1, None)


def _activity_rows(rows: pl.DataFrame) -> pl.DataFrame:
    calls = pl.lit(1, pl.Int64).alias("calls")
    return rows.select("step", *_KEYS, calls, pl.col("dur_ns").alias("total_ns"))


def _busy(rows: pl.DataFrame) -> int:
    start = rows["start_ns"].to_numpy()
    return union(start, start + rows["dur_ns"].to_numpy()).length
