"""For what share of the GPU time a fact is known. Printed with every view."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl
from msgspec.structs import fields

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.role_names import OTHER
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
    known = {"classified": pl.col("category") != "other", "generic": pl.col("generic")}
    if attributed.profile.is_aggregate:
        rows = attributed.aggregates.select("category", "generic", dur_ns="total_ns")
    else:
        rows = attributed.activities
        dims = take(attributed.profile.events["input_dims"], rows["op_row"])
        known |= {
            "linked": pl.col("launch_row").is_not_null(),
            "op": pl.col("op_row").is_not_null(),
            "shapes": pl.lit(dims).is_not_null(),
            "operator": pl.col("operator").is_not_null(),
            "layer": pl.col("place").is_not_null(),
            "role": pl.col("role").is_not_null() & (pl.col("role") != OTHER),
        }
    found = shares(rows, known)
    return CoverageSummary(
        **{f.name: found.get(f.name.removesuffix("_pct")) for f in fields(CoverageSummary)}
    )


def share(rows: pl.DataFrame, which: pl.Expr) -> float | None:
    """Share of `dur_ns` in the rows that `which` selects, percent; null if there is no time."""
    return shares(rows, {"which": which})["which"]


def shares(rows: pl.DataFrame, which: Mapping[str, pl.Expr]) -> dict[str, float | None]:
    """`share` for each of several."""
    time = pl.col("dur_ns")
    sums = [time.filter(chosen).sum().alias(name) for name, chosen in which.items()]
    *covered, total = rows.select(*sums, time.sum().alias("total")).row(0)
    return {name: percent_of(part, total) for name, part in zip(which, covered, strict=True)}
