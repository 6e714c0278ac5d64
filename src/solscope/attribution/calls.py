"""Calls of models: the passes of a step one by one, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.arrays import series
from solscope.attribution.modules import Tree, models_in
from solscope.attribution.pass_starts import form_of, pass_starts
from solscope.attribution.phases import Query
from solscope.attribution.sequence import Letter
from solscope.attribution.speculation import Pass
from solscope.attribution.stacks import Stacks

_OWN = ("rank", "device", "pass")
"""One pass on one device."""


class Program(NamedTuple):
    """What tells the passes of a step apart."""

    sequence: pl.Series
    """The letter of each activity."""
    tree: Tree
    """Modules in Python stacks."""


def take_apart(stacks: Stacks, pass_id: pl.Series, program: Program) -> pl.Series:
    """The passes, with those that hold several taken apart: by modules, else by kernels."""
    activities = stacks.activities
    begins = np.zeros(activities.height, dtype=np.int64)
    texts = _texts(activities, pass_id, program.sequence)
    for text, rows in texts.select("text", "at").iter_rows():
        begins[[rows[start] for start in pass_starts(text)[1:]]] = 1
    calls = stacks.rows("python", models_in(program.tree))
    if not begins.any() and calls.null_count() == calls.len():
        return pass_id
    # What runs between two calls belongs to the one before it, what runs before all to the first.
    call = pl.col("call").fill_null(strategy="forward").fill_null(strategy="backward")
    several = pl.col("call").drop_nulls().n_unique() > 1
    inner = pl.when(several).then(call.cast(pl.Int64)).otherwise(pl.col("begins").cum_sum())
    table = (
        activities.select("rank", "device", "start_ns", pass_id.alias("pass"))
        .with_columns(series("begins", begins), calls.alias("call"))
        .with_row_index("at")
        .sort("start_ns", nulls_last=True, maintain_order=True)
        .with_columns(inner.over(_OWN).alias("inner"))
        .sort("at")
    )
    known = pl.when(pl.col("pass").is_not_null()).then(pl.struct("pass", "inner"))
    return table.select(known.rank("dense").cast(pl.Int32).alias("pass")).to_series()


class Known(NamedTuple):
    """Passes in order of start, and when each begins on the GPU."""

    passes: list[Pass]
    starts: dict[int, int]


def known_passes(
    activities: pl.DataFrame,
    sequence: pl.Series,
    pass_id: pl.Series,
    named: pl.Series,
    queries: Sequence[Query | None],
) -> Known:
    """What is known of each pass; of several devices the first tells. `named`: stated phases."""
    first = _texts(activities, pass_id, sequence).sort("rank", "device", "start_ns")
    own = first.unique("pass", keep="first", maintain_order=True).sort("start_ns")
    query_of = _agreed(pass_id, queries)
    phase_of = dict(
        pl.DataFrame({"pass": pass_id, "phase": named}).drop_nulls().unique().iter_rows()
    )
    passes = []
    for number, text, time in own.select("pass", "text", "time").iter_rows():
        form = form_of(text)
        if form.layers:
            known = query_of.get(number), phase_of.get(number), form.whole
            passes.append(Pass(number, form.text, form.layers, time, *known))
    return Known(passes, dict(own.select("pass", "start_ns").iter_rows()))


def _agreed(pass_id: pl.Series, queries: Sequence[Query | None]) -> dict[int, Query]:
    """Queries of the passes whose calls of attention all have the same."""
    seen: dict[int, set[Query]] = {}
    for number, query in zip(pass_id, queries, strict=True):
        if query is not None and number is not None:
            seen.setdefault(number, set()).add(query)
    return {number: found.pop() for number, found in seen.items() if len(found) == 1}


def _texts(activities: pl.DataFrame, pass_id: pl.Series, sequence: pl.Series) -> pl.DataFrame:
    """For each pass on each device its letters in order of start, its start, time and rows."""
    in_pass = pl.col("pass").is_not_null() & pl.col("start_ns").is_not_null()
    return (
        activities.select("rank", "device", "start_ns", "dur_ns", pass_id.alias("pass"))
        .with_columns(sequence.alias("letter"))
        .with_row_index("at")
        .filter(in_pass & (pl.col("letter") != Letter.TRANSFER.value))
        .sort("start_ns", maintain_order=True)
        .group_by(_OWN, maintain_order=True)
        .agg(
            pl.col("letter").str.join("").alias("text"),
            pl.col("start_ns").first(),
            pl.col("dur_ns").sum().alias("time"),
            "at",
        )
    )
