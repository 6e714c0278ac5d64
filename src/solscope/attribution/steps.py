"""Steps: which iteration of the engine each GPU activity belongs to, and that iteration's phase.

`cuts.py` says where one step ends and the next begins, `passes.py` what runs through the model are
in a step. Activities without a launch that ran before the first step form a step of their own,
marked as cut.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from solscope.attribution.calls import Program
from solscope.attribution.cuts import BEFORE, Cut, cut_at, cut_steps
from solscope.attribution.modules import Tree
from solscope.attribution.passes import find_passes
from solscope.attribution.phases import PHASES, facts_of
from solscope.attribution.stacks import Stacks
from solscope.intervals import Int64s, find_stray

STEP_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "name": pl.String(),
        "found_by": pl.String(),
        "phase": pl.Enum(PHASES),
        "requests": pl.Int64(),
        "tokens": pl.Int64(),
        "cut": pl.Boolean(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "process": pl.Int32(),
    }
)
"""One row per step; `start_ns` and `end_ns` bound its GPU activities, `process` counts from 0."""


MIN_TURNS = 2
"""Fewest turns of drafts and verification that are steps."""


class Steps(NamedTuple):
    """The steps of a profile and where each activity belongs."""

    table: pl.DataFrame
    """`STEP_SCHEMA`."""
    step: pl.Series
    """For each activity its step number, or null."""
    pass_id: pl.Series
    """For each activity a number that is the same within one run through the model."""
    pass_phase: pl.Series
    """Phase of that run, where it is known."""
    guessed: pl.Series
    """True where that phase, or none, follows from the kernels and not from a name."""

    def without_phases(self) -> Steps:
        """The same steps, of a model that has no prefill and decode."""
        phase = pl.Enum(PHASES)
        table = self.table.with_columns(pl.lit(None, phase).alias("phase"))
        return self._replace(table=table, pass_phase=self.pass_phase.clear(self.pass_phase.len()))

    def without_guesses(self, where: pl.Series) -> Steps:
        """The same steps, without phases that only follow from the kernels of these activities.

        A copy to the host says nothing of its own: it is one with the pass that it belongs to.
        """
        passes = self.pass_id.filter(where.fill_null(False)).unique()
        lost = self.pass_id.is_in(passes.implode()).fill_null(False)
        lost &= self.guessed.fill_null(False)
        if not lost.any():
            return self
        steps = set(self.step.filter(lost).drop_nulls())
        kept = set(self.step.filter(~lost & self.pass_phase.is_not_null()).drop_nulls())
        gone = pl.col("step").is_in(sorted(steps - kept))
        table = self.table.with_columns(pl.when(~gone).then("phase").alias("phase"))
        return self._replace(table=table, pass_phase=self.pass_phase.set(lost, None))


def find_steps(stacks: Stacks, sequence: pl.Series, tree: Tree) -> Steps:
    """Cut the profile into steps and passes; ranks and processes of a merged one by themselves.

    `sequence` has the letter of each activity.
    """
    activities = stacks.activities
    if activities["rank"].n_unique() < 2 and activities["pid"].n_unique() < 2:
        return _find_steps(stacks, Program(sequence, tree))
    owner = activities.select(pl.struct("rank", "pid").rank("dense").cast(pl.Int32)).to_series()
    if owner.n_unique() < 2:
        return _find_steps(stacks, Program(sequence, tree))
    parts = [
        _find_steps(
            Stacks(stacks.events, activities.filter(owner == number)),
            Program(sequence.filter(owner == number), tree),
        )
        for number in owner.unique()
    ]
    return _merge(
        parts, [(owner == number).arg_true() for number in owner.unique()], activities.height
    )


def _merge(parts: list[Steps], rows: list[pl.Series], height: int) -> Steps:
    """Steps of several processes as one numbering; `rows` says whose activities are whose."""
    tables, steps, passes, phases, guesses = [], [], [], [], []
    done = turns = 0
    for process, own in enumerate(parts):
        shifted = own.table.with_columns(
            pl.col("step") + done, pl.lit(process, pl.Int32).alias("process")
        )
        tables.append(shifted)
        steps.append(own.step + done)
        passes.append(own.pass_id + turns)
        phases.append(own.pass_phase)
        guesses.append(own.guessed)
        done += int(own.table["step"].max() or 0) + 1 if not own.table.is_empty() else 0  # type: ignore[arg-type]
        turns += int(own.pass_id.max() or 0)  # type: ignore[arg-type]
    merged_rows = pl.concat(rows)
    columns = [pl.concat(column) for column in (steps, passes, phases, guesses)]
    placed = pl.DataFrame(
        [merged_rows.alias("at"), *(c.alias(str(n)) for n, c in enumerate(columns))]
    )
    whole = pl.DataFrame({"at": pl.Series(range(height), dtype=merged_rows.dtype)}).join(
        placed, on="at", how="left", maintain_order="left"
    )
    return Steps(pl.concat(tables), whole["0"], whole["1"], whole["2"], whole["3"])


def _find_steps(stacks: Stacks, program: Program) -> Steps:
    """Steps by the best source; a turn of drafts and their verification is one step."""
    activities = stacks.activities
    cut = cut_steps(stacks)
    steps, turns = _with_passes(stacks, cut, program)
    if turns.size < MIN_TURNS or cut[1].found_by == "annotation":
        return steps
    return _with_passes(stacks, cut_at(activities, turns, "turns"), program)[0]


def _with_passes(
    stacks: Stacks, given: tuple[pl.Series, Cut], program: Program
) -> tuple[Steps, Int64s]:
    """The steps of a cut with their passes, and when turns of drafts and verification begin."""
    activities = stacks.activities
    step, cut = given
    step, has_head = _head(step, activities)
    step = _without_stray(step, activities)
    names = [BEFORE, *cut.names] if has_head else cut.names
    table = _describe(activities, step, cut._replace(names=names))
    found = find_passes(stacks, step, table, program)
    return Steps(found.table, step, found.pass_id, found.pass_phase, found.guessed), found.turns


def _head(step: pl.Series, activities: pl.DataFrame) -> tuple[pl.Series, bool]:
    """Unlinked activities before the first step become a cut step 0; later ones join others.

    The second value says whether there is such a step, by which all others then move up.
    """
    if activities["launch_row"].null_count() == 0 or step.null_count() == 0:
        return step, False
    lost = activities["launch_row"].is_null()
    table = pl.DataFrame({"step": step, "start_ns": activities["start_ns"], "lost": lost})
    ordered = table.with_row_index("at").sort("start_ns", nulls_last=True)
    joined = ordered.select(
        pl.when(pl.col("lost")).then(pl.col("step").fill_null(strategy="forward")).otherwise("step")
    ).to_series()
    early = ordered["lost"] & joined.is_null()
    if early.any():
        joined = (joined + 1).set(early, 0)
    placed = pl.DataFrame({"at": ordered["at"], "step": joined}).sort("at")["step"]
    return placed.cast(pl.Int32), bool(early.any())


def _without_stray(step: pl.Series, activities: pl.DataFrame) -> pl.Series:
    """Take out of each step the few activities that lie far away from all its others."""
    table = pl.DataFrame(
        {
            "step": step,
            "start": activities["start_ns"],
            "end": activities["start_ns"] + activities["dur_ns"].fill_null(0),
        }
    ).with_row_index("at")
    lost: list[int] = []
    for of_step in table.drop_nulls().partition_by("step"):
        stray = find_stray(of_step["start"].to_numpy(), of_step["end"].to_numpy(), one_in=200)
        if stray is not None:
            lonely = pl.col("start") < stray.end if stray.before else pl.col("start") >= stray.end
            lost += of_step.filter(lonely)["at"].to_list()
    return step.scatter(lost, None) if lost else step


def _describe(activities: pl.DataFrame, step: pl.Series, cut: Cut) -> pl.DataFrame:
    """The step table: bounds on the GPU, and what the names tell."""
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    bounds = (
        activities.select(step.alias("step"), "start_ns", end.alias("end_ns"))
        .filter(pl.col("step").is_not_null())
        .group_by("step")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("step")
    )
    rows = []
    for number, start, stop in bounds.iter_rows():
        name = cut.names[number]
        facts = facts_of(name)
        whole = name != BEFORE
        values = (number, name, cut.found_by, *facts, not whole, start, stop, 0)
        rows.append(dict(zip(STEP_SCHEMA, values, strict=True)))
    return pl.DataFrame(rows, schema=STEP_SCHEMA)
