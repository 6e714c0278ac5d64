"""Replays of a graph and the same kernels, in the same order, in an eager companion.

A replay runs the kernels that were recorded into its graph, so an eager run of the same program has
the same names in the same order. Where the whole sequence of a replay is found in the companion,
each of its kernels has a counterpart, whatever layers and roles the two were given.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.attribution.twins import NAMELESS
from solscope.intervals import Int64s

MIN_LENGTH = 8
"""Shorter sequences may occur in other places by chance."""


class Counterparts(NamedTuple):
    """Replays by their sequence of names, and where each sequence is found in the companion.

    Replays repeat: each sequence is looked up once. Pairs of all replays with all places would grow
    with their product.
    """

    members: pl.DataFrame
    """`at`, `sequence`, `turn`: every kernel of a replay, and which one of its sequence it is."""
    places: pl.DataFrame
    """`sequence`, `turn`, `other`: the same kernel wherever the whole sequence is found."""


def counterparts(own: pl.DataFrame, there: pl.DataFrame) -> Counterparts:
    """Every place in `there` where a whole replay is found."""
    names = pl.concat([own["name"].cast(pl.String), there["name"].cast(pl.String)])
    codes = names.cast(pl.Categorical).to_physical().cast(pl.UInt64).fill_null(NAMELESS).to_numpy()
    ours, theirs = codes[: own.height], codes[own.height :]
    sources = [(at, theirs[at]) for at in _ordered(there, pl.lit(value=True))]
    numbers: dict[bytes, int] = {}
    members: list[tuple[int, Int64s]] = []
    places: list[tuple[int, Int64s]] = []
    for at in _replays(own):
        wanted = ours[at]
        key = wanted.tobytes()
        if key not in numbers:
            number = numbers[key] = len(numbers)
            places += [
                (number, p[i : i + at.size]) for p, text in sources for i in _places(text, wanted)
            ]
        members.append((numbers[key], at))
    return Counterparts(_table(members, "at"), _table(places, "other"))


def _table(parts: list[tuple[int, Int64s]], name: str) -> pl.DataFrame:
    """Positions of kernels, with the sequence and the turn of each."""
    empty = np.empty(0, np.int64)
    columns = {
        "sequence": [np.full(part.size, number) for number, part in parts],
        "turn": [np.arange(part.size) for _, part in parts],
        name: [part for _, part in parts],
    }
    return pl.DataFrame(
        {column: np.concatenate([empty, *arrays]) for column, arrays in columns.items()},
        schema=dict.fromkeys(columns, pl.Int64),
    )


def _replays(own: pl.DataFrame) -> list[Int64s]:
    """Positions of the kernels of each graph launch, in the order in which they ran."""
    lacking = pl.col("op_row").is_null() & pl.col("launch_row").is_not_null()
    groups: dict[int, list[int]] = defaultdict(list)
    work = own.select("launch_row", "start_ns", lacking.alias("lacking"), at=pl.int_range(pl.len()))
    for launch, at in (
        work.filter("lacking").sort("start_ns", maintain_order=True).select("launch_row", "at")
    ).iter_rows():
        groups[launch].append(at)
    return [np.array(g, np.int64) for g in groups.values() if len(g) >= MIN_LENGTH]


def _ordered(table: pl.DataFrame, wanted: pl.Expr) -> list[Int64s]:
    """Positions by device, in order of start."""
    work = table.select("rank", "device", "start_ns", at=pl.int_range(pl.len()).cast(pl.Int64))
    ordered = work.filter(pl.col("start_ns").is_not_null() & wanted).sort(
        "start_ns", maintain_order=True
    )
    return [part["at"].to_numpy() for part in ordered.partition_by(["rank", "device"])]


def _places(text: np.ndarray, wanted: np.ndarray) -> list[int]:
    """Where a sequence stands in another, without overlap."""
    if wanted.size > text.size:
        return []
    candidates = np.flatnonzero(text[: text.size - wanted.size + 1] == wanted[0])
    found: list[int] = []
    for at in candidates.tolist():
        if found and at < found[-1] + wanted.size:
            continue
        if np.array_equal(text[at : at + wanted.size], wanted):
            found.append(at)
    return found
