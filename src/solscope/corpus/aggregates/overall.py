"""Sums over all profiles of a part: what a question about the whole store needs of it.

They hold for questions that count every profile the same, the ranks of a run together as one, and
use all profiles of the part. Shares of GPU time are of the rows in the part, so that no profile may
have rows in another one. What a profile counts depends on the other ranks of its run: `counted` has
it as it was when the part was made, and a question compares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.part import (
    OVERALL_FRAMES,
    SUMS,
    Frames,
    KeyKind,
    first_of,
    key_columns,
    names_of,
    sums_by_profile,
)
from solscope.corpus.runs import ranks_of, run_of

Ints = npt.NDArray[np.int64]
ONE = 1 << 40
"""A share of 100 % as an integer: sums do not depend on how rows are spread over files."""
POOLS = 200
"""Pools of profiles that an interval is drawn from."""
FACTS = ("gpu", "model", "framework")
_DIGITS = 8
"""Hexadecimal digits of an id that choose the pool."""


def build(rows: pl.LazyFrame, kind: KeyKind, profiles: pl.DataFrame) -> Frames:
    """All frames of some rows of `times`; `profiles` are those of the store (`counted`)."""
    frames = sums_by_profile(rows, kind)
    frames |= {name: pl.DataFrame() for name in OVERALL_FRAMES}
    facts = (
        frames["entries"]
        .select("entry")
        .join(profiles, on="entry", how="left", maintain_order="left")
    )
    if facts.is_empty() or facts["id"].null_count():
        # Rows of a batch that is still being written, or that was never committed.
        return frames
    by_profile = _by_profile(frames["cells"], frames["entries"]["time_ns"].to_numpy(), facts)
    frames["counted"] = facts.select("ranks", "pool")
    frames["overall"] = _overall(by_profile, facts["id"])
    pooled = by_profile.group_by("name", "pool").agg(pl.col("share").sum())
    frames["pools"] = pooled.sort("name", "pool")
    if kind == "shape":
        frames["seen"] = _seen(frames["cells"], facts)
        frames["kernels"] = _kernels(rows, frames["names"])
    return frames


def counted(profiles: pl.DataFrame) -> pl.DataFrame:
    """What parts are made with: facts of each profile, `ranks` of its run, and the run's `pool`."""
    runs = run_of(profiles)
    return profiles.select("entry", "id", *FACTS).with_columns(
        pl.Series("ranks", ranks_of(runs)), pools_of(profiles["id"]).gather(runs)
    )


def pools_of(ids: pl.Series) -> pl.Series:
    """The pool of each profile, by the hash that its id is: the same in every store."""
    number = ids.str.head(_DIGITS).str.to_integer(base=16, strict=False, dtype=pl.Int64)
    return (number.fill_null(0) % POOLS).cast(pl.UInt8).alias("pool")


def _by_profile(cells: pl.DataFrame, totals: Ints, profiles: pl.DataFrame) -> pl.DataFrame:
    """Sums by profile and name, over phases."""
    entry, name = cells["entry"].to_numpy(), cells["name"].to_numpy()
    new = first_of(entry.astype(np.int64), name.astype(np.int64))
    columns: dict[str, npt.NDArray[Any]] = {
        column: np.add.reduceat(cells[column].to_numpy(), new) for column in SUMS
    }
    bounded = np.add.reduceat(cells["bounded"].cast(pl.Int64).to_numpy(), new)
    entry = entry[new]
    weight = (1.0 / profiles["ranks"].to_numpy())[entry] * ONE
    scale = weight / np.maximum(totals[entry], 1)
    occurs = columns["time_ns"] > 0
    return pl.DataFrame(
        {"name": name[new], **columns, "bounded": bounded}
        | {
            "profiles": occurs.astype(np.int64),
            "occurs": np.rint(weight * occurs).astype(np.int64),
            "share": np.rint(scale * columns["time_ns"]).astype(np.int64),
            "spared": np.rint(scale * columns["recoverable_ns"]).astype(np.int64),
        }
    ).with_columns(
        profiles["pool"].gather(entry),
        profiles["id"].rank("ordinal").cast(pl.Int64).alias("rank").gather(entry),
    )


def _overall(by_profile: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Sums by name; `with_rows` counts profiles; `longest` is the id of that with most time."""
    longest = pl.col("time_ns") == pl.col("time_ns").max()
    sorted_ids = pl.lit(ids.sort())
    return (
        by_profile.group_by("name")
        .agg(
            pl.col(*SUMS, "bounded", "profiles", "occurs", "share", "spared").sum(),
            pl.len().cast(pl.Int64).alias("with_rows"),
            pl.col("time_ns").max().alias("longest_ns"),
            (pl.col("rank").filter(longest).min() - 1).alias("longest"),
        )
        .with_columns(sorted_ids.gather(pl.col("longest")).alias("longest"))
        .sort("name")
    )


def _seen(cells: pl.DataFrame, profiles: pl.DataFrame) -> pl.DataFrame:
    """Phases of each shape, with the facts of the profiles that have it."""
    kinds = profiles.select(FACTS).unique(maintain_order=True).with_row_index("facts")
    facts = profiles.join(kinds, on=FACTS, nulls_equal=True, maintain_order="left")["facts"]
    return (
        cells.select("name", "phase", facts.gather(cells["entry"]))
        .unique()
        .join(kinds, on="facts")
        .drop("facts")
        .sort("name", "phase", *FACTS)
    )


def _kernels(rows: pl.LazyFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Roles and kernels of each shape."""
    keys = names.rename(dict(zip(names_of("shape"), key_columns("shape"), strict=True)))
    return (
        rows.select("operator", "axes", "role", "kernel", "calls", "time_ns")
        .join(keys.with_row_index("name").lazy(), on=["operator", "axes"], nulls_equal=True)
        .group_by("name", "role", "kernel")
        .agg(pl.col("calls").sum(), pl.col("time_ns").max())
        .sort("name", "role", "kernel")
        .collect()
    )
