"""The steps that a number per step is about: one definition for every view.

The *step time* is from the first GPU activity of a step to the first one of the next step of the
same process, whatever its phase, so that the time between steps counts. Of the steps of a phase,
these are left out:

* `cut`: the recording shows only a part of the step.
* `last`: no step follows, so its step time is not recorded. Where that holds for every step of a
  phase they stay, and are measured to their last activity.
* `outlier`: its step time is more than `OUTLIER` times the median of its phase, and few steps are
  (`RARE`). In recordings of several ranks the first collective holds the different starts of their
  profilers, and one pause would hide what every other step is like. Where many steps are that long,
  they are what the phase is like, and stay.

A profile without steps is one recording, measured from its first activity to its last. A file that
states how long each of its steps took (`readers/behavior_csv.py`) has no last step to leave out.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.once import once

OUTLIER = 2.0
"""A step that takes more than this many times the median is not a usual one."""
RARE = 0.1
"""Share of the steps of a phase that outliers have at most; one step can always be one."""
WHOLE = "whole_profile"
"""`found_by` of a profile in which no steps were found."""
Measured = Literal["start_to_start", "extent", "stated", "recording"]


class LeftOut(msgspec.Struct, frozen=True):
    """Steps that numbers per step are not about, by reason."""

    cut: int = 0
    """The recording shows only a part of them, in a run of several ranks that of any rank."""
    first: int = 0
    """In a run of several ranks, the first of each: their profilers start at different times."""
    last: int = 0
    """No step follows, so their step time is not recorded."""
    outlier: int = 0
    """They take more than twice the median of their phase, as at most a tenth of its steps do."""


class StepBasis(msgspec.Struct, frozen=True):
    """The steps that numbers per step are about, the same in every view."""

    phase: str | None
    steps: int
    """Steps that the numbers are means over; 0 for a recording without steps."""
    of: int
    """Steps of this phase in the recording; `steps` and `left_out` add up to them."""
    step_ms: float
    """Step time, mean: from the start of a step to the start of the next."""
    measured: Measured
    """`extent`: to the last activity of the step, since no step of this phase is followed by
    another; `stated`: as the file states it; `recording`: there are no steps, so this is the time
    of the recording."""
    left_out: LeftOut
    outlier_ms: float | None
    """Mean step time of the outliers; null without any."""


class UsualSteps(msgspec.Struct, frozen=True):
    """The usual steps of one phase, and the others with what sets them apart."""

    phase: str | None
    table: pl.DataFrame
    """Columns of `STEP_SCHEMA`, `until_ns` and `wall_ns`, in order of time."""
    others: pl.DataFrame
    """The same and `reason`: a field of `LeftOut`."""
    measured: Measured

    @property
    def numbers(self) -> list[int]:
        """Numbers of the usual steps."""
        return self.table["step"].to_list()

    @property
    def is_step(self) -> bool:
        """False where no steps were found, and this is the whole recording."""
        return self.measured != "recording"

    @property
    def mean_ns(self) -> float:
        """Mean step time."""
        return int(self.table["wall_ns"].sum()) / max(1, self.table.height)

    @property
    def whole(self) -> pl.DataFrame:
        """Usual steps and all others that are not cut, in order of time."""
        if self.others.is_empty():
            return self.table
        rest = self.others.filter(pl.col("reason") != "cut").drop("reason")
        return pl.concat([self.table, rest]).sort("start_ns", maintain_order=True)

    @property
    def with_outliers(self) -> pl.DataFrame:
        """Usual steps and outliers, in order of time."""
        if self.others.is_empty():
            return self.table
        longer = self.others.filter(pl.col("reason") == "outlier").drop("reason")
        return pl.concat([self.table, longer]).sort("start_ns", maintain_order=True)

    @property
    def basis(self) -> StepBasis:
        """What to state beside every number; of several processes, counts of the first."""
        if not self.is_step:
            return recording_basis(self.mean_ns / 1e6)
        first = pl.col("process") == self.table["process"].min()
        counted = self.table.filter(first).height
        others = self.others.filter(first)
        reasons = others["reason"].to_list()
        longer = others.filter(pl.col("reason") == "outlier")["wall_ns"]
        return StepBasis(
            phase=self.phase,
            steps=counted,
            of=counted + len(reasons),
            step_ms=self.mean_ns / 1e6,
            measured=self.measured,
            left_out=LeftOut(**{reason: reasons.count(reason) for reason in set(reasons)}),
            outlier_ms=int(longer.sum()) / longer.len() / 1e6 if longer.len() else None,
        )


def recording_basis(time_ms: float) -> StepBasis:
    """The basis of numbers about a recording without steps."""
    return StepBasis(None, 0, 0, time_ms, "recording", LeftOut(), None)


@once
def usual_steps(attributed: Attributed) -> list[UsualSteps]:
    """The usual steps of each phase, that with most time first; empty for a summary."""
    return select_usual(attributed.steps)


def usual_numbers(attributed: Attributed) -> list[int]:
    """Numbers of the usual steps of all phases."""
    return [number for phase in usual_steps(attributed) for number in phase.numbers]


def select_usual(steps: pl.DataFrame, *, stated: bool = False) -> list[UsualSteps]:
    """The usual steps of a table of steps; `stated`: each ends when the file says so."""
    following = pl.col("start_ns").shift(-1).over("process")
    if stated:
        following = pl.lit(None, pl.Int64)
    timed = (
        steps.filter(pl.col("start_ns").is_not_null())
        .sort("start_ns", maintain_order=True)
        .with_columns(
            pl.col("phase").cast(pl.String),
            following.fill_null(pl.col("end_ns")).alias("until_ns"),
            following.is_not_null().alias("followed"),
        )
        .with_columns((pl.col("until_ns") - pl.col("start_ns")).alias("wall_ns"))
    )
    marked = timed.filter(pl.col("found_by") != WHOLE)
    if marked.is_empty():
        return _recording(timed)
    short: Measured = "stated" if stated else "extent"
    phases = [_of_phase(rows, short) for rows in marked.partition_by("phase", maintain_order=True)]
    selected = [phase for phase in phases if phase is not None]
    return sorted(selected, key=lambda phase: -int(phase.whole["wall_ns"].sum()))


def _recording(timed: pl.DataFrame) -> list[UsualSteps]:
    whole = timed.filter(~pl.col("cut")).drop("followed")
    if whole.is_empty():
        return []
    none = whole.clear().with_columns(pl.lit(None, pl.String).alias("reason"))
    return [UsualSteps(whole["phase"][0], whole, none, "recording")]


def _of_phase(rows: pl.DataFrame, unfollowed: Measured) -> UsualSteps | None:
    """The usual steps of one phase; null where all of them are cut.

    `unfollowed`: what the step time is where no step follows another.
    """
    whole = rows.filter(~pl.col("cut"))
    if whole.is_empty():
        return None
    followed = bool(whole["followed"].any())
    measurable = whole.filter("followed") if followed else whole
    # Processes of one recording may be of different speed, so each has its own median.
    is_long = pl.col("wall_ns") > OUTLIER * pl.col("wall_ns").median().over("process")
    most = pl.max_horizontal(1, RARE * pl.len().over("process"))
    usual = measurable.filter(~is_long | (is_long.sum().over("process") > most))
    reason = (
        pl.when("cut")
        .then(pl.lit("cut"))
        .when(~pl.col("followed") & followed)
        .then(pl.lit("last"))
        .otherwise(pl.lit("outlier"))
    )
    others = rows.filter(~pl.col("step").is_in(usual["step"].implode()))
    return UsualSteps(
        phase=rows["phase"][0],
        table=usual.drop("followed"),
        others=others.with_columns(reason.alias("reason")).drop("followed"),
        measured="start_to_start" if followed else unfollowed,
    )
