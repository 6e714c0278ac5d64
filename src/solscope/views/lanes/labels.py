"""What events are called: texts as codes, and labels numbered in the order of their first use.

Many events share few texts. Each distinct text is looked up once, and everything else is done on
small numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from solscope.arrays import numbers, series, take
from solscope.intervals import Int64s
from solscope.views.lanes.base import Label

COLUMNS = ("name", "category", "role", "op", "full")
"""What a label consists of."""
FEW = 1 << 16
"""Combinations of texts for which a table is kept even where there are fewer events."""


@dataclass(frozen=True)
class Texts:
    """A text for each event, or none."""

    codes: Int64s
    known: list[str | None]
    """Distinct texts, by code."""

    def take(self, rows: Int64s | slice) -> Texts:
        """Those of some events."""
        return Texts(self.codes[rows], self.known)


def texts_of(column: pl.Series, rows: Int64s | None = None) -> Texts:
    """The texts of a column, or of some of its rows; null is one of them."""
    if column.dtype not in (pl.Categorical, pl.Enum):
        column = column.cast(pl.Categorical())
    codes = numbers(column.to_physical())
    if rows is None:
        rows = np.arange(codes.size)
    else:
        codes = codes[rows]
    # A row for each code that occurs; which one does not matter. The last is for -1, null.
    row = np.full(int(codes.max(initial=-1)) + 2, -1, dtype=np.int64)
    row[codes] = rows
    present = np.flatnonzero(row >= 0)
    known = take(column, series("", row[present])).cast(pl.String).to_list()
    row[present] = np.arange(present.size)
    return Texts(row[codes], known)


class Labels:
    """The distinct labels of a time line."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str | None, ...], int] = {}

    @property
    def all(self) -> list[Label]:
        """In the order of their numbers."""
        return [
            Label("(no name)" if name is None else name, *rest) for name, *rest in self._numbers
        ]

    def number(self, texts: Mapping[str, Texts]) -> Int64s:
        """The label of each event; those not seen before get the next numbers, by first use."""
        columns = [texts[name] for name in COLUMNS if name in texts]
        key, size = _combined(columns)
        first = np.full(size, -1, dtype=np.int64)
        # Written from the last to the first, so that the first stays.
        first[key[::-1]] = np.arange(key.size)[::-1]
        rows = np.sort(first[first >= 0])
        found = {
            name: [column.known[code] for code in column.codes[rows].tolist()]
            for name, column in texts.items()
        }
        none = [None] * rows.size
        labels = zip(*(found.get(name, none) for name in COLUMNS), strict=True)
        first[key[rows]] = [self._numbers.setdefault(one, len(self._numbers)) for one in labels]
        return first[key]


def _combined(columns: list[Texts]) -> tuple[Int64s, int]:
    """One number for each combination of texts, and a bound of these numbers."""
    key, size = columns[0].codes, len(columns[0].known)
    for column in columns[1:]:
        key, size = key * len(column.known) + column.codes, size * len(column.known)
        if size > max(FEW, key.size):
            distinct, key = np.unique(key, return_inverse=True)
            size = distinct.size
    return key, size
