"""NVTX ranges that name an operator, as torch's `emit_nvtx` pushes them.

Such a range reads `aten::add, op_id = 314359`, with the shapes of the inputs as `sizes = [[2, 3],
[]]` where they were recorded. It is an operator like those of a Kineto trace, not an annotation.
"""

from __future__ import annotations

import polars as pl

_OPERATOR = r"^([\w.]+::[\w.]+), (?:seq = -?\d+, )?op_id = \d+"
_SIZES = r"sizes = (\[[\[\]\d, ]*\])"


def operators_from_ranges(events: pl.DataFrame) -> pl.DataFrame:
    """Turn annotations that name an operator into operators, with shapes where they are given."""
    names = events.filter(pl.col("kind") == "annotation").select(pl.col("name").unique())
    text = pl.col("name").cast(pl.String)
    lookup = names.with_columns(
        text.str.extract(_OPERATOR).cast(pl.Categorical).alias("op"),
        text.str.extract(_SIZES).str.replace_all(" ", "").cast(pl.Categorical).alias("sizes"),
    ).filter(pl.col("op").is_not_null())
    if lookup.is_empty():
        return events
    joined = events.join(lookup, on="name", how="left", maintain_order="left")
    is_op = (pl.col("kind") == "annotation") & pl.col("op").is_not_null()
    return joined.with_columns(
        pl.when(is_op)
        .then(pl.lit("cpu_op", events.schema["kind"]))
        .otherwise("kind")
        .alias("kind"),
        pl.when(is_op).then("op").otherwise("name").alias("name"),
        pl.when(is_op).then("sizes").otherwise("input_dims").alias("input_dims"),
    ).drop("op", "sizes")
