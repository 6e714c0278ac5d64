"""Parts of a store, and which of their profiles a question is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.part import KeyKind, Part
from solscope.corpus.aggregates.stored import parts
from solscope.corpus.queries.select import Selection

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SelectedPart:
    """A part, and the number in the selection of each of its profiles."""

    part: Part
    at: Ints
    """By number in the part; -1 for profiles that are not selected."""
    complete: bool
    """Whether all its profiles and phases are selected, and have no rows in another part."""

    @cached_property
    def is_whole(self) -> bool:
        """Whether its sums over all profiles are there and hold."""
        return self.complete and not self.part.overall.is_empty()


@dataclass(frozen=True)
class SelectedParts:
    """All parts of a store."""

    found: list[SelectedPart]
    time_ns: Ints
    """GPU time of each selected profile in all phases, from its rows."""
    has_rows: npt.NDArray[np.bool_]

    def __iter__(self) -> Iterator[SelectedPart]:
        return iter(self.found)


def selected_parts(selection: Selection, kind: KeyKind) -> SelectedParts:
    """Parts of a selection; of those that are stored only the list of profiles is read here."""
    candidates = parts(selection.corpus, kind, selection.profiles)
    own = selection.profiles.select("entry", "at")
    numbers = [_numbers(part, own) for part in candidates]
    size = selection.profiles.height
    time_ns, times_found = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for part, profile_rows in zip(candidates, numbers, strict=True):
        there = profile_rows >= 0
        np.add.at(time_ns, profile_rows[there], part.entries["time_ns"].to_numpy()[there])
        np.add.at(times_found, profile_rows[there], 1)
    selected = []
    for part, profile_rows in zip(candidates, numbers, strict=True):
        complete = (
            selection.phase is None
            and (profile_rows >= 0).all()
            and (times_found[profile_rows] == 1).all()
        )
        selected.append(SelectedPart(part, profile_rows, bool(complete)))
    return SelectedParts(selected, time_ns, times_found > 0)


def _numbers(part: Part, own: pl.DataFrame) -> Ints:
    joined = part.entries.select("entry").join(own, on="entry", how="left", maintain_order="left")
    return joined["at"].cast(pl.Int64).fill_null(-1).to_numpy()
