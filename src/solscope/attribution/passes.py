"""Passes: runs through the model inside a step, and what they tell of the step.

Annotations that name a phase (`prefill`, `decode`) separate the passes of a step. Of what they
leave whole, each call of a model that Python stacks show is a pass, and so is what the order of
kernels shows to be one (`pass_starts.py`). Where no name tells the phase, the requests or the
tokens, the shapes of attention calls do, when those agree. Passes of two models that take turns are
drafts and their verification where that is earned (`speculation.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import take
from solscope.attribution.calls import Program, known_passes, take_apart
from solscope.attribution.phases import (
    PHASES,
    Query,
    facts_of,
    phase_by_shapes,
    phase_of_replays,
    queries_of,
)
from solscope.attribution.speculation import find_turns
from solscope.attribution.stacks import Stacks
from solscope.attribution.structure import is_training
from solscope.intervals import Int64s


class Passes(NamedTuple):
    """The step table with what passes tell of it, and where each activity belongs."""

    table: pl.DataFrame
    pass_id: pl.Series
    pass_phase: pl.Series
    guessed: pl.Series
    """True where no name states the phase."""
    turns: Int64s
    """When each turn of drafts and their verification begins on the GPU, where that is known."""


def find_passes(stacks: Stacks, step: pl.Series, table: pl.DataFrame, program: Program) -> Passes:
    """Split the steps of `table` into passes; fill in phases, requests and tokens it lacks."""
    events, activities = stacks.events, stacks.activities
    pass_id, pass_phase = _by_name(stacks, step, table)
    if not is_training(activities):
        pass_id = take_apart(stacks, pass_id, program)
    named = step.is_in(table.filter(pl.col("phase").is_not_null())["step"].to_list())
    guessed = pass_phase.is_null() & ~named.fill_null(False)
    queries = queries_of(events, activities)
    stated = _or_else(pass_phase, _of_steps(step, table))
    known = known_passes(activities, program.sequence, pass_id, stated, queries)
    turns = find_turns(known.passes)
    spoken = pass_id.replace_strict(turns.phases, default=None, return_dtype=pl.String)
    pass_phase = _or_else(spoken.cast(pl.Enum(PHASES)), pass_phase)
    pass_phase = _or_else(pass_phase, _spread(phase_by_shapes(queries), pass_id))
    unnamed = step.is_in(table.filter(pl.col("phase").is_null())["step"].to_list())
    replays = phase_of_replays(events, activities, pass_id)
    pass_phase = _or_else(pass_phase, replays.zip_with(unnamed, replays.clear(replays.len())))
    table = _fill_sizes(_fill_phases(table, step, pass_phase), step, queries)
    pass_phase = _or_else(pass_phase, _of_steps(step, table))
    begins = np.array([known.starts[number] for number in turns.starts], dtype=np.int64)
    return Passes(table, pass_id, pass_phase, guessed, begins)


def _of_steps(step: pl.Series, table: pl.DataFrame) -> pl.Series:
    """For each activity the phase of its step."""
    by_step = dict(table.select("step", pl.col("phase").cast(pl.String)).iter_rows())
    phases = step.replace_strict(by_step, default=None, return_dtype=pl.String)
    return phases.cast(pl.Enum(PHASES))


def _or_else(phase: pl.Series, other: pl.Series) -> pl.Series:
    if other.null_count() == other.len():
        return phase
    return phase.zip_with(phase.is_not_null(), other)


def _by_name(stacks: Stacks, step: pl.Series, table: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Runs through the model: by annotations that name a phase, else the step itself."""
    events, activities = stacks.events, stacks.activities
    notes = events.select("kind", "name").filter(pl.col("kind") == "annotation")
    names = notes["name"].unique().drop_nulls()
    phases = {
        n: f.phase
        for n in names
        if (f := facts_of(n)).phase in ("prefill", "decode", "draft", "verify")
    }
    if not phases:
        return _one_pass_per_step(step)
    rows = stacks.rows("annotation", phases.keys())
    frame = pl.DataFrame(
        {"step": step, "mark": rows, "start_ns": activities["start_ns"]}
    ).with_row_index("at")
    # A step whose own name tells its phase is one pass, whatever is marked inside it but drafts.
    with_phase = pl.col("step").is_in(table.filter(pl.col("phase").is_not_null())["step"].to_list())
    drafts = [row for row, name in _names(events, rows) if phases[name] == "draft"]
    frame = frame.with_columns(
        pl.when(~with_phase).then("mark").alias("mark"),
        pl.when(with_phase & pl.col("mark").is_in(drafts)).then("mark").alias("draft"),
    )
    if frame["mark"].null_count() < frame.height:
        frame = _filled(frame)
    frame = frame.with_columns(pl.coalesce("mark", "draft").alias("mark"))
    marked = frame.select("step", "mark")
    distinct = marked.unique()
    texts = take(events["name"], distinct["mark"]).cast(pl.String)
    phase = texts.replace_strict(phases, default=None, return_dtype=pl.String)
    known_pass = distinct.with_columns(
        pl.when(pl.col("step").is_not_null())
        .then(pl.struct("step", "mark").rank("dense").cast(pl.Int32))
        .alias("pass"),
        phase.cast(pl.Enum(PHASES)).alias("pass_phase"),
    )
    joined = marked.join(
        known_pass, on=["step", "mark"], how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["pass"], joined["pass_phase"]


def _one_pass_per_step(step: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Passes where nothing is marked; activities without a step count as the first, unnumbered."""
    number = step.rank("dense").cast(pl.Int32) + (1 if step.null_count() else 0)
    return number.alias("pass"), _no_phase(step.len()).alias("pass_phase")


def _no_phase(activities: int) -> pl.Series:
    return pl.Series([None], dtype=pl.Enum(PHASES)).new_from_index(0, activities)


def _names(events: pl.DataFrame, rows: pl.Series) -> Iterator[tuple[int, str]]:
    """Each of these rows once, with the name of its event."""
    distinct = rows.unique().drop_nulls()
    yield from zip(distinct, take(events["name"], distinct).cast(pl.String), strict=True)


def _filled(frame: pl.DataFrame) -> pl.DataFrame:
    """Work between two marked parts belongs to the one before it, work before all to the first."""
    ordered = frame.sort("step", "start_ns", nulls_last=True)
    for strategy in ("forward", "backward"):
        filled = pl.col("mark").fill_null(strategy=strategy).over("step")
        ordered = ordered.with_columns(filled.alias("mark"))
    return ordered.sort("at")


def _spread(phase: pl.Series, pass_id: pl.Series) -> pl.Series:
    """Give every activity the phase that the attention calls of its pass agree on."""
    if phase.null_count() == phase.len():
        return phase
    seen = pl.DataFrame({"pass": pass_id, "phase": phase}).drop_nulls().unique()
    agreed = seen.group_by("pass").agg(pl.col("phase").first(), pl.len()).filter(pl.col("len") == 1)
    joined = pl.DataFrame({"pass": pass_id}).join(
        agreed, on="pass", how="left", maintain_order="left"
    )
    return joined["phase"]


def _fill_phases(table: pl.DataFrame, step: pl.Series, pass_phase: pl.Series) -> pl.DataFrame:
    """Phases of steps whose name tells none, from the phases of their passes."""
    if not table["phase"].null_count() or pass_phase.null_count() == pass_phase.len():
        return table
    seen = (
        pl.DataFrame({"step": step, "seen": pass_phase.cast(pl.String)})
        .drop_nulls()
        .group_by("step")
        .agg(pl.col("seen").unique().sort())
    )
    phase_of = {number: _of_passes(set(phases)) for number, phases in seen.iter_rows()}
    guess = table["step"].replace_strict(phase_of, default=None, return_dtype=pl.String)
    return table.with_columns(pl.coalesce("phase", guess.cast(pl.Enum(PHASES))).alias("phase"))


def _of_passes(phases: set[str]) -> str | None:
    """The phase of a step whose passes have these: drafts and their verification are decode."""
    if len(phases) == 1:
        return phases.pop()
    if phases <= {"decode", "draft", "verify"}:
        return "decode"
    return "mixed" if phases == {"prefill", "decode"} else None


def _fill_sizes(table: pl.DataFrame, step: pl.Series, queries: list[Query | None]) -> pl.DataFrame:
    """Requests and tokens of steps whose name tells none, when all their attention calls agree."""
    if not any(queries):
        return table
    sizes = pl.DataFrame(
        {
            "step": step,
            "seen_requests": [None if q is None else q.requests for q in queries],
            "seen_tokens": [
                None if q is None or q.requests is None else q.requests * q.length for q in queries
            ],
        },
        schema_overrides={"seen_requests": pl.Int64, "seen_tokens": pl.Int64},
    ).drop_nulls()
    agreed = (
        sizes.unique()
        .group_by("step")
        .agg(pl.col("seen_requests", "seen_tokens").first(), pl.len().alias("shapes"))
        .filter(pl.col("shapes") == 1)
    )
    return table.join(agreed, on="step", how="left", maintain_order="left").select(
        pl.coalesce(name, f"seen_{name}").alias(name) if name in ("requests", "tokens") else name
        for name in table.columns
    )
