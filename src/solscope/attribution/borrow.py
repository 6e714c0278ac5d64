"""Operators and shapes for kernels that have none, from where the same kernel has them.

Kernels that a graph replays, or whose launch the profile does not show, have no operator. The same
kernel often ran elsewhere with one: in an eager part of the same profile (same name and grid), or
in a companion profile of the same program (same place in the model: layer, role, name and order
within it). What was borrowed is kept in columns of its own, with how it was found; it never
overwrites what was recorded.
"""

from __future__ import annotations

import polars as pl

HOW = pl.Enum(["companion", "same_kernel"])
"""From the same place of a companion profile, or from the same kernel in this one."""

_PLACE = ["phase", "place", "layer", "role", "name", "turn"]


def borrow(
    events: pl.DataFrame,
    activities: pl.DataFrame,
    companion: tuple[pl.DataFrame, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Add `op_borrowed`, `dims_borrowed`, `borrowed_by`; `companion` is (events, activities)."""
    here = _by_kernel(events, activities)
    joined = activities.join(
        here, on=["name", "grid"], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(
        pl.lit(None, pl.Categorical).alias("there_op"),
        pl.lit(None, pl.Categorical).alias("there_dims"),
    )
    if companion is not None:
        there = _by_place(*companion)
        joined = (
            joined.drop("there_op", "there_dims")
            .with_columns(_turn())
            .join(there, on=_PLACE, how="left", nulls_equal=True, maintain_order="left")
            .drop("turn")
        )
    lacking = pl.col("op_row").is_null()
    from_there = lacking & pl.col("there_op").is_not_null()
    from_here = lacking & pl.col("here_op").is_not_null()
    return joined.with_columns(
        pl.when(from_there).then("there_op").when(from_here).then("here_op").alias("op_borrowed"),
        pl.when(from_there)
        .then("there_dims")
        .when(from_here)
        .then("here_dims")
        .alias("dims_borrowed"),
        pl.when(from_there)
        .then(pl.lit("companion", HOW))
        .when(from_here)
        .then(pl.lit("same_kernel", HOW))
        .alias("borrowed_by"),
    ).drop("here_op", "here_dims", "there_op", "there_dims")


def _with_dims(events: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    dims = events["input_dims"].gather(activities["op_row"]).alias("dims")
    return activities.with_columns(dims)


def _by_kernel(events: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """The one operator that launches a kernel with a grid; its shapes where all calls agree."""
    own = _with_dims(events, activities).filter(pl.col("op").is_not_null())
    return (
        own.group_by("name", "grid")
        .agg(
            pl.col("op").first().alias("here_op"),
            pl.col("op").n_unique().alias("ops"),
            pl.when(pl.col("dims").n_unique() == 1).then(pl.col("dims").first()).alias("here_dims"),
        )
        .filter(pl.col("ops") == 1)
        .drop("ops")
    )


def _by_place(events: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Operator and shapes at each place of the model, where all passes agree."""
    own = _with_dims(events, activities).with_columns(_turn()).filter(pl.col("op").is_not_null())
    return (
        own.filter(pl.col("place").is_not_null())
        .group_by(_PLACE)
        .agg(
            pl.col("op").first().alias("there_op"),
            pl.col("op").n_unique().alias("ops"),
            pl.when(pl.col("dims").n_unique() == 1)
            .then(pl.col("dims").first())
            .alias("there_dims"),
        )
        .filter(pl.col("ops") == 1)
        .drop("ops")
    )


def _turn() -> pl.Expr:
    """Which of the equal kernels of its role, layer and pass an activity is, by start."""
    same = ["rank", "device", "pass", "place", "layer", "role", "name"]
    return pl.col("start_ns").rank("ordinal").over(same).alias("turn")
