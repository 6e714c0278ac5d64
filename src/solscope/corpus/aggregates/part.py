"""A part: one or more data files of `times`, summed by profile, phase and key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.durations import counts
from solscope.views.hotspots import TARGET_PCT

KeyKind = Literal["operator", "shape", "category", "role", "kernel"]
KINDS: tuple[KeyKind, ...] = get_args(KeyKind)
SUMS = ("time_ns", "calls", "bound_ns", "bounded_ns", "bounded_calls", "recoverable_ns")
FRAMES = ("entries", "names", "phases", "cells", "durations", "limits")
OVERALL_FRAMES = ("overall", "pools", "counted", "seen", "kernels")
"""Frames over all profiles together; empty while one of the profiles is not in the store."""

Frames = dict[str, pl.DataFrame]


Query = Callable[[pl.LazyFrame], pl.LazyFrame]


class Load(Protocol):
    """Reads a frame of a part, or what a query leaves of it."""

    def __call__(self, name: str, query: Query = ..., /) -> pl.DataFrame: ...


class CallCounts(NamedTuple):
    """Calls by `entry`, `name` and `phase`, as numbers in a part: how many have which `value`."""

    durations: pl.DataFrame
    """By duration, ns."""
    limits: pl.DataFrame
    """By bound, ns."""


@dataclass(frozen=True)
class Part:
    """Sums of some profiles; names and profiles are numbered from 0 within the part.

    Frames are read when they are used, large ones each time: a question needs few of them.
    """

    load: Load
    calls_of: Callable[[Part, npt.NDArray[np.int64]], CallCounts]
    kernels_of: Callable[[Part, npt.NDArray[np.int64]], pl.DataFrame]

    @cached_property
    def entries(self) -> pl.DataFrame:
        """The profiles: `entry`, and `time_ns` of all their rows here."""
        return self.load("entries")

    @cached_property
    def names(self) -> pl.DataFrame:
        """`name:0` and, for shapes, `name:1`: operator and axes."""
        return self.load("names")

    @cached_property
    def phases(self) -> pl.DataFrame:
        """`phase`."""
        return self.load("phases")

    def call_counts(self, entries: npt.NDArray[np.int64]) -> CallCounts:
        """Call times and bounds of single profiles, given by their numbers."""
        return self.calls_of(self, entries)

    def kernel_rows(self, entries: npt.NDArray[np.int64]) -> pl.DataFrame:
        """Of shapes: rows of single profiles, given by their numbers.

        `name` and `phase` as numbers, `role`, `kernel`, `calls` and `time_ns`.
        """
        return self.kernels_of(self, entries)

    def cells(self, at: npt.NDArray[np.int64], *columns: str) -> pl.DataFrame:
        """`entry`, `name`, `phase` as numbers, sorted, and `SUMS`: all, or some of the columns.

        Those of profiles whose `at` is negative may be missing.
        """
        wanted = np.flatnonzero(at >= 0)
        if wanted.size == at.size:
            return self.load("cells", lambda cells: cells.select(columns or pl.all()))
        entries = pl.Series(wanted, dtype=pl.UInt32).implode()
        own = pl.col("entry").is_in(entries)
        return self.load("cells", lambda cells: cells.filter(own).select(columns or pl.all()))

    @property
    def durations(self) -> pl.DataFrame:
        """`name`, `phase`, `value`, `calls`: how many calls took so many ns."""
        return self.load("durations")

    @property
    def limits(self) -> pl.DataFrame:
        """The same for the bound of a call."""
        return self.load("limits")

    @cached_property
    def overall(self) -> pl.DataFrame:
        """One row per `name` with sums over all profiles; empty where they are not known."""
        return self.load("overall")

    @cached_property
    def counted(self) -> pl.DataFrame:
        """Of each of `entries`: `ranks` of its run in all, and the `pool` of the run."""
        return self.load("counted")

    @property
    def pools(self) -> pl.DataFrame:
        """`name`, `pool`, `share`: shares of GPU time, summed over the profiles of a pool."""
        return self.load("pools")

    @property
    def seen(self) -> pl.DataFrame:
        """Of shapes: `name`, `phase`, and the facts of profiles that have it."""
        return self.load("seen")

    @property
    def kernels(self) -> pl.DataFrame:
        """Of shapes: `name`, `role`, `kernel`, `calls`, and the longest `time_ns`."""
        return self.load("kernels")


def key_columns(kind: KeyKind) -> list[str]:
    """Columns of `times` that make a key."""
    return ["operator", "axes"] if kind == "shape" else [kind]


def names_of(kind: KeyKind) -> list[str]:
    """Columns of `Part.names`."""
    return [f"name:{index}" for index in range(len(key_columns(kind)))]


def first_of(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where a new pair begins in two columns of sorted cells."""
    new = (np.diff(first, prepend=-1) != 0) | (np.diff(second, prepend=-1) != 0)
    return np.flatnonzero(new)


def sums_by_profile(rows: pl.LazyFrame, kind: KeyKind) -> Frames:
    """`FRAMES` of some rows of `times`."""
    texts = names_of(kind)
    values = ("time_ns", "calls", "call_ns", "bound_ns", "expected_ns")
    named = rows.select(
        *("entry", "phase", *values, "durations_ns", "durations_calls"),
        *(
            pl.col(column).alias(text)
            for text, column in zip(texts, key_columns(kind), strict=True)
        ),
    )
    names = _distinct(named, texts)
    phases = phases_of(named)
    entries = entries_of(named)
    # Texts are long: from here on each is a number.
    coded = (
        named.join(_numbered(names, "name"), on=texts, nulls_equal=True)
        .join(_numbered(phases, "phase_number"), on="phase", nulls_equal=True)
        .join(_numbered(entries.select("entry"), "entry_number"), on="entry")
        .drop(*texts, "phase", "entry")
        .rename({"phase_number": "phase", "entry_number": "entry"})
        .with_columns(pl.col("phase").cast(pl.UInt8))
        .collect()
        .lazy()
    )
    order = ["name", "phase", "value"]
    return {
        "entries": entries,
        "names": names,
        "phases": phases,
        "cells": _cells(coded).collect(),
        "durations": counts(coded, ["name", "phase"]).sort(order).collect(),
        "limits": bounds_of_calls(coded, ["name", "phase"]).sort(order).collect(),
    }


def _cells(rows: pl.LazyFrame) -> pl.LazyFrame:
    bounded = pl.col("bound_ns").is_not_null()
    reference = pl.max_horizontal("bound_ns", "expected_ns")
    spared = pl.col("call_ns") - (reference * (100 / TARGET_PCT)).round().cast(pl.Int64)
    return (
        rows.group_by("entry", "name", "phase")
        .agg(
            pl.col("time_ns", "calls", "bound_ns").sum(),
            pl.col("call_ns").filter(bounded).sum().alias("bounded_ns"),
            pl.col("calls").filter(bounded).sum().alias("bounded_calls"),
            spared.clip(lower_bound=0).filter(bounded).sum().alias("recoverable_ns"),
            bounded.any().alias("bounded"),
        )
        .sort("entry", "name", "phase")
    )


def phases_of(rows: pl.LazyFrame) -> pl.DataFrame:
    """`Part.phases` of some rows of `times`."""
    return _distinct(rows, ["phase"])


def _distinct(rows: pl.LazyFrame, columns: list[str]) -> pl.DataFrame:
    distinct = rows.select(columns).unique().collect(engine="streaming")
    return distinct.sort(columns, nulls_last=True)


def entries_of(rows: pl.LazyFrame) -> pl.DataFrame:
    """`Part.entries` of some rows of `times`."""
    sums = rows.group_by("entry").agg(pl.col("time_ns").sum())
    return sums.collect(engine="streaming").sort("entry")


def _numbered(texts: pl.DataFrame, number: str) -> pl.LazyFrame:
    return texts.with_row_index(number).lazy()


def bounds_of_calls(rows: pl.LazyFrame, by: list[str]) -> pl.LazyFrame:
    """Bounds of a call, with the number of calls."""
    each = (pl.col("bound_ns") / pl.col("calls")).alias("value")
    some = rows.filter(pl.col("bound_ns").is_not_null() & (pl.col("calls") > 0))
    return some.group_by(*by, each).agg(pl.col("calls").sum())
