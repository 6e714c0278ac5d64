"""GPU activities by category, short name and data type, step by step."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from solscope.diagnose.observe.pieces import Pieces, per_step
from solscope.names import short_name
from solscope.readers.packed import KernelClass, Step

MOST_GRIDS = 6
MOST_CLASSES = 160
"""Most kernel classes kept; the shortest ones beyond that are merged per category."""

_DTYPES = (
    ("fp8", re.compile(r"(?i)e4m3|e5m2|fp8|float8")),
    ("bf16", re.compile(r"(?i)bf16|bfloat16|nvjet(?:_sm\d+)?_t[a-z]{2}_")),
    (
        "f16",
        re.compile(r"(?i)\bhalf\b|_half|f16(?!x)|fp16|h16816|hgemm|nvjet(?:_sm\d+)?_h[a-z]{2}_"),
    ),
    ("tf32", re.compile(r"(?i)tf32|s1688|nvjet(?:_sm\d+)?_s[a-z]{2}_")),
    ("f32", re.compile(r"(?i)sgemm|f32f32|float32|\bfloat\b|simt_s|ffma")),
    ("int8", re.compile(r"(?i)int8|s8s8|i8816")),
)


UNNAMED = "(unnamed)"
"""Name of activities that were recorded without one."""


def dtype_in(name: str) -> str | None:
    """Data type in a kernel's name: the first of fp8, bf16, f16, tf32, f32, int8."""
    return next((dtype for dtype, pattern in _DTYPES if pattern.search(name[:4096])), None)


def kernel_classes(activities: pl.DataFrame, busy: Pieces, steps: list[Step]) -> list[KernelClass]:
    """Classes of `activities` (with `index`, the position of their step) and their exposed time."""
    size = len(steps)
    exposed = per_step(activities.height, busy.owner, busy.end - busy.start)
    table = activities.select("name", "kind", "category", "dur_ns", "grid", "bytes", "index")
    table = table.with_columns(
        pl.Series("exposed", exposed), pl.col("name").cast(pl.String).fill_null(UNNAMED)
    ).filter(pl.col("index") >= 0)
    names = table["name"].unique().to_list()
    classes = pl.DataFrame(
        {
            "name": pl.Series(names, dtype=pl.String),
            "short": [short_name(name)[:160] for name in names],
            "dtype": [dtype_in(name) for name in names],
        },
        schema_overrides={"short": pl.String, "dtype": pl.String},
    )
    table = table.join(classes, on="name", how="left", maintain_order="left")
    table = _merge_rare(table)
    whole = [step.whole for step in steps]
    return [
        _kernel_class(members, size, whole)
        for members in table.partition_by(["category", "short", "dtype"], maintain_order=True)
    ]


def _merge_rare(table: pl.DataFrame) -> pl.DataFrame:
    """Classes beyond the longest `MOST_CLASSES` become one per category."""
    key = ["category", "short", "dtype"]
    totals = table.group_by(key).agg(pl.col("dur_ns").sum()).sort("dur_ns", descending=True)
    if totals.height <= MOST_CLASSES:
        return table
    kept = totals.head(MOST_CLASSES).select(*key, pl.lit(True).alias("kept"))
    joined = table.join(kept, on=key, how="left", nulls_equal=True, maintain_order="left")
    rare = pl.col("kept").is_null()
    return joined.with_columns(
        pl.when(rare).then(pl.lit("(other kernels)")).otherwise("short").alias("short"),
        pl.when(rare).then(None).otherwise("dtype").alias("dtype"),
    ).drop("kept")


def _kernel_class(members: pl.DataFrame, size: int, whole: list[bool]) -> KernelClass:
    members_at = members["index"].to_numpy()
    in_whole = members.filter(pl.Series(np.array(whole)[members_at]))
    median = (in_whole if not in_whole.is_empty() else members)["dur_ns"].median()
    grids = members["grid"].drop_nulls().cast(pl.String).value_counts(sort=True).head(MOST_GRIDS)
    return KernelClass(
        category=members["category"][0],
        name=members["short"][0],
        dtype=members["dtype"][0],
        calls=per_step(size, members_at, np.ones_like(members_at)),
        ns=per_step(size, members_at, members["dur_ns"].to_numpy()),
        exposed_ns=per_step(size, members_at, members["exposed"].to_numpy()),
        p50_ns=int(median or 0),  # type: ignore[arg-type]
        grids=dict(grids.iter_rows()),
        bytes=int(members["bytes"].sum() or 0),
    )
