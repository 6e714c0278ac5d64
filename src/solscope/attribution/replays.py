"""Replays of a graph and the same kernels, in the same order, in an eager companion.

A replay runs the kernels that were recorded into its graph, so an eager run of the same program has
the same names in the same order. Where the whole sequence of a replay is found in the companion,
each of its kernels has a counterpart, whatever layers and roles the two were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.attribution.twins import NAMELESS
from solscope.intervals import Int64s
from solscope.names import short_name

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


class Refusal(NamedTuple):
    """Why replays have no counterparts in a companion, and how far the closest place got."""

    reason: str
    replays: int
    closeness: float


def counterparts(own: pl.DataFrame, there: pl.DataFrame) -> Counterparts:
    """Every place in `there` where a whole replay is found, in steps of its size if known."""
    ours, sources = _codes(own, there)
    sizes = there["tokens"].to_list()
    numbers: dict[tuple[bytes, int | None], int] = {}
    members: list[tuple[int, Int64s]] = []
    places: list[tuple[int, Int64s]] = []
    for rows, tokens in _long_replays(own):
        wanted = ours[rows]
        key = (wanted.tobytes(), tokens)
        if key not in numbers:
            number = numbers[key] = len(numbers)
            occurrences = [
                p[i : i + rows.size] for p, text in sources for i in find_in(text, wanted)
            ]
            least = least_size(tokens, (sizes[int(place[0])] for place in occurrences))
            fits = [p for p in occurrences if least is None or sizes[int(p[0])] in (least, None)]
            places += [(number, place) for place in fits]
        members.append((numbers[key], rows))
    return Counterparts(positions_table(members, "at"), positions_table(places, "other"))


def least_size(tokens: int | None, sizes: Iterable[int | None]) -> int | None:
    """The least of these sizes that holds a step; null where it is not known or none does."""
    enough = [size for size in sizes if size is not None and tokens is not None and size >= tokens]
    return min(enough, default=None)


def refusals(own: pl.DataFrame, there: pl.DataFrame) -> list[Refusal]:
    """For replays that are nowhere in `there`: how far the closest place agrees; most first."""
    ours, sources = _codes(own, there)
    names = own["name"].cast(pl.String)
    counts = Counter(ours[rows].tobytes() for rows, _ in _long_replays(own))
    refused: dict[bytes, Refusal] = {}
    for rows, _ in _long_replays(own):
        key = ours[rows].tobytes()
        if key in refused:
            continue
        same = max((_common_start(text, ours[rows]) for _, text in sources), default=0)
        if same < rows.size:
            here = short_name(str(names[int(rows[same])]))
            reason = f"the order is the same for {same} of {rows.size} kernels; the next is {here}"
            refused[key] = Refusal(reason, counts[key], same / rows.size)
    return by_reason(refused.values())


def by_reason(refused: Iterable[Refusal]) -> list[Refusal]:
    """One per reason, those of most replays first."""
    reasons: dict[str, Refusal] = {}
    for each in refused:
        before = reasons.get(each.reason)
        count = each.replays + (0 if before is None else before.replays)
        reasons[each.reason] = each._replace(replays=count)
    return sorted(reasons.values(), key=lambda refusal: -refusal.replays)


def replays(own: pl.DataFrame) -> pl.DataFrame:
    """`at`, positions of the kernels of each graph launch in the order in which they ran.

    One row per launch, in their order, with `step` and `tokens`.
    """
    return (
        own.select("launch_row", "start_ns", "replayed", "step", "tokens")
        .with_row_index("at")
        .filter("replayed")
        .sort("start_ns", maintain_order=True)
        .group_by("launch_row", maintain_order=True)
        .agg(pl.col("at").cast(pl.Int64), pl.col("step", "tokens").first())
        .sort("launch_row")
    )


def positions_table(parts: list[tuple[int, Int64s]], name: str) -> pl.DataFrame:
    """Positions of kernels, with the sequence and the turn of each."""
    empty = np.empty(0, np.int64)
    columns = {
        "sequence": [np.full(rows.size, number) for number, rows in parts],
        "turn": [np.arange(rows.size) for _, rows in parts],
        name: [rows for _, rows in parts],
    }
    return pl.DataFrame(
        {column: np.concatenate([empty, *arrays]) for column, arrays in columns.items()},
        schema=dict.fromkeys(columns, pl.Int64),
    )


def find_in(text: np.ndarray, wanted: np.ndarray) -> list[int]:
    """Where a sequence stands in another, without overlap."""
    if wanted.size > text.size:
        return []
    candidates = np.flatnonzero(text[: text.size - wanted.size + 1] == wanted[0])
    starts: list[int] = []
    for position in candidates.tolist():
        if starts and position < starts[-1] + wanted.size:
            continue
        if np.array_equal(text[position : position + wanted.size], wanted):
            starts.append(position)
    return starts


def _codes(
    own: pl.DataFrame, there: pl.DataFrame
) -> tuple[np.ndarray, list[tuple[Int64s, np.ndarray]]]:
    """Names of the kernels of `own` as numbers, and those of each device of `there`, by start."""
    names = pl.concat([own["name"].cast(pl.String), there["name"].cast(pl.String)])
    codes = names.cast(pl.Categorical).to_physical().cast(pl.UInt64).fill_null(NAMELESS).to_numpy()
    theirs = codes[own.height :]
    return codes[: own.height], [(position, theirs[position]) for position in _ordered(there)]


def _long_replays(own: pl.DataFrame) -> Iterator[tuple[Int64s, int | None]]:
    for rows, tokens in replays(own).select("at", "tokens").iter_rows():
        if len(rows) >= MIN_LENGTH:
            yield np.array(rows, np.int64), tokens


def _ordered(table: pl.DataFrame) -> list[Int64s]:
    """Positions by device, in order of start."""
    work = table.select("rank", "device", "start_ns", at=pl.int_range(pl.len()).cast(pl.Int64))
    ordered = work.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    return [of_device["at"].to_numpy() for of_device in ordered.partition_by(["rank", "device"])]


def _common_start(text: np.ndarray, wanted: np.ndarray) -> int:
    """The most kernels from the start of a sequence on that stand together in another."""
    longest = 0
    for position in np.flatnonzero(text == wanted[0]).tolist():
        here = text[position : position + wanted.size]
        other = np.flatnonzero(here != wanted[: here.size])
        longest = max(longest, int(other[0]) if other.size else here.size)
    return longest
