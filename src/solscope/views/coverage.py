"""For what share of the GPU time a fact is known. Printed with every view."""

from __future__ import annotations

import msgspec
import polars as pl

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.roles import OTHER
from solscope.views.percent import percent_of


class CoverageSummary(msgspec.Struct, frozen=True):
    """Shares of GPU activity time in percent; null when the question does not apply."""

    linked_pct: float | None
    """Time whose launch call is in the profile."""
    classified_pct: float | None
    """Time whose category is not `other`."""
    generic_pct: float | None
    """Time classified only by a generic rule; `kernels --by name` shows what it was."""
    op_pct: float | None
    """Time whose launching operator is known."""
    shapes_pct: float | None
    """Time whose launching operator has recorded input shapes."""
    operator_pct: float | None
    """Time of kernels that implement a known catalog operator."""
    layer_pct: float | None
    """Time whose place in the model is known: a layer, or the prologue or epilogue."""
    role_pct: float | None
    """Time with a role."""


def coverage(attributed: Attributed) -> CoverageSummary:
    """How much of the GPU time is linked, classified, and has an operator and shapes."""
    if attributed.profile.is_aggregate:
        rows = attributed.aggregates.select("category", "generic", dur_ns="total_ns")
        return CoverageSummary(
            None, _classified(rows), _generic(rows), None, None, None, None, None
        )
    rows = attributed.activities
    dims = take(attributed.profile.events["input_dims"], rows["op_row"])
    return CoverageSummary(
        linked_pct=share(rows, pl.col("launch_row").is_not_null()),
        classified_pct=_classified(rows),
        generic_pct=_generic(rows),
        op_pct=share(rows, pl.col("op_row").is_not_null()),
        shapes_pct=share(rows.with_columns(dims.alias("dims")), pl.col("dims").is_not_null()),
        operator_pct=share(rows, pl.col("operator").is_not_null()),
        layer_pct=share(rows, pl.col("place").is_not_null()),
        role_pct=share(rows, pl.col("role").is_not_null() & (pl.col("role") != OTHER)),
    )


def share(rows: pl.DataFrame, which: pl.Expr) -> float | None:
    """Share of `dur_ns` in the rows that `which` selects, percent; null if there is no time."""
    time = pl.col("dur_ns")
    covered, total = rows.select(time.filter(which).sum(), time.sum().alias("total")).row(0)
    return percent_of(covered, total)


def _classified(rows: pl.DataFrame) -> float | None:
    return share(rows, pl.col("category") != "other")


def _generic(rows: pl.DataFrame) -> float | None:
    return share(rows, pl.col("generic"))
