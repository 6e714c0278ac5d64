"""Time and calls of one key in each profile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from solscope.corpus.aggregates.part import KeyKind, Part, names_of
from solscope.corpus.aggregates.stored import parts
from solscope.corpus.queries.select import UNKNOWN, Selection

_SUMS = ("time_ns", "calls")


def profile_sums(selection: Selection, kind: KeyKind, key: str | None) -> pl.DataFrame:
    """`time_ns` and `calls` by `at`, of one key or, without one, of all."""
    own = selection.profiles.select("entry", "at")
    sums = [pl.DataFrame(schema={"at": own["at"].dtype, **dict.fromkeys(_SUMS, pl.Int64())})]
    for part in parts(selection.corpus, kind, selection.profiles):
        every = np.zeros(part.entries.height, np.int64)
        cells = part.cells(every, "entry", "name", "phase", *_SUMS).filter(
            pl.col("phase").is_in(list(_phases(selection, part)))
        )
        if key is not None:
            numbers = part.names.with_row_index("number").filter(pl.col("name:0") == key)["number"]
            cells = cells.filter(pl.col("name").is_in(numbers.to_list()))
        numbered = part.entries.with_row_index("number").join(own, on="entry")
        sums.append(
            cells.select(pl.col("entry").alias("number"), *_SUMS)
            .join(numbered.select("number", "at"), on="number")
            .group_by("at")
            .agg(pl.col(*_SUMS).sum())
        )
    return pl.concat(sums).group_by("at").agg(pl.col(*_SUMS).sum())


def profile_keys(selection: Selection, kind: KeyKind) -> list[str]:
    """Keys that occur, sorted."""
    (name, *_) = names_of(kind)
    frames = [
        part.names[name].drop_nulls() for part in parts(selection.corpus, kind, selection.profiles)
    ]
    return sorted({text for frame in frames for text in frame.to_list()})


def _phases(selection: Selection, part: Part) -> Iterator[int]:
    """Numbers of the phases that count."""
    for number, phase in enumerate(part.phases["phase"].to_list()):
        if selection.phase is None or (phase or UNKNOWN) == selection.phase:
            yield number
