"""Units: what a time is taken per, before anything is compared.

A unit is the usual steps of one phase in one profile (`attribution/usual_steps.py`), or a whole
profile when steps cannot be compared. For the steps of a unit,

    GPU time - overlapped + idle = extent,    extent + gap = step time

on average: *extent* is from the first start to the last end of a step's activities, *overlapped* is
what ran at the same time as something else on its GPU, *gap* is from the end of a step to the start
of the next one of any phase (negative where steps overlap). Where no step of a phase is followed by
another, there is no gap. With several GPUs in a profile, times are means over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import UsualSteps, usual_steps
from solscope.intervals import union
from solscope.profile import ProfileWarning

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
    """`step`, `extent_ns`, `gap_ns`, their sum `time_ns` (both null where no step follows), and
    what annotations state: `requests`, `tokens`. Empty for a whole profile."""
    rows: pl.DataFrame
    """`step`, `category`, `operator`, `group`, `role`, `name`, `calls`, `total_ns`."""
    devices: int
    """GPUs of a step."""
    busy_ns: int | None
    """Time in which a GPU worked, summed over steps and GPUs; null for a whole profile."""
    usual: UsualSteps | None
    """Null for a whole profile."""

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
    """Phases that whole steps have in order of time, null for a phase not known; or none."""
    first = {usual.phase: int(usual.table["start_ns"][0]) for usual in _usual_phases(attributed)}
    return sorted(first, key=lambda phase: first[phase])


def shared_phases(profiles: Sequence[Attributed]) -> list[str | None]:
    """Phases that every profile has, in the order of the first; known ones alone if there are."""
    sets = [set(phases_of(profile)) for profile in profiles]
    shared = [p for p in phases_of(profiles[0]) if all(p in phases for phases in sets)]
    return [p for p in shared if p is not None] or shared


def _usual_phases(attributed: Attributed) -> list[UsualSteps]:
    """Usual steps by phase; none where no steps were found."""
    return [usual for usual in usual_steps(attributed) if usual.is_step]


def steps_unit(attributed: Attributed, phase: str | None, *, outliers: bool = False) -> Unit:
    """The usual steps of one phase, or these and its outliers."""
    usual = next(usual for usual in _usual_phases(attributed) if usual.phase == phase)
    steps = usual.with_outliers if outliers else usual.table
    numbers = steps["step"].implode()
    wanted = pl.col("step").is_in(numbers) & pl.col("start_ns").is_not_null()
    rows = attributed.activities.filter(wanted).with_columns(pl.col("dur_ns").fill_null(0))
    # Ranks that share a file are processes of their own: a step runs on the GPUs of one of them.
    processes = max(1, steps["process"].n_unique())
    followed = usual.measured == "start_to_start"
    return Unit(
        steps=_lengths(steps, followed),
        rows=_activity_rows(rows),
        devices=max(1, rows.select("rank", "device").n_unique() // processes),
        busy_ns=sum(
            _busy(step_rows) for step_rows in rows.partition_by(["rank", "device", "step"])
        ),
        usual=usual,
    )


def _lengths(steps: pl.DataFrame, followed: bool) -> pl.DataFrame:
    """Extent, gap and step time of each step."""
    gap, time = pl.col("until_ns") - pl.col("end_ns"), pl.col("wall_ns")
    return steps.select(
        "step",
        (pl.col("end_ns") - pl.col("start_ns")).alias("extent_ns"),
        pl.when(followed).then(gap).alias("gap_ns"),
        pl.when(followed).then(time).alias("time_ns"),
        "requests",
        "tokens",
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
    nothing = attributed.steps.clear().with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in ("until_ns", "wall_ns")
    )
    return Unit(_lengths(nothing, followed=False), rows, 1, None, None)


def _activity_rows(rows: pl.DataFrame) -> pl.DataFrame:
    calls = pl.lit(1, pl.Int64).alias("calls")
    return rows.select("step", *_KEYS, calls, pl.col("dur_ns").alias("total_ns"))


def _busy(rows: pl.DataFrame) -> int:
    start = rows["start_ns"].to_numpy()
    return union(start, start + rows["dur_ns"].to_numpy()).length
