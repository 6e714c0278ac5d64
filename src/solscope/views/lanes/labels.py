"""What events are called: labels, numbered in the order of their first use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solscope.arrays import Texts
from solscope.intervals import Int64s
from solscope.views.lanes.base import Label

COLUMNS = ("name", "category", "role", "op", "full")
"""What a label consists of."""
AT_ONCE = 1 << 13
"""Rows among which new labels are looked for at a time."""
FEW = 1 << 16
"""Combinations of texts for which a table is kept even where there are fewer events."""


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
        rows = _first_uses(key, size)
        found = {
            name: [column.known[code] for code in column.codes[rows].tolist()]
            for name, column in texts.items()
        }
        none = [None] * rows.size
        labels = zip(*(found.get(name, none) for name in COLUMNS), strict=True)
        number = np.zeros(size, dtype=np.int64)
        number[key[rows]] = [self._numbers.setdefault(one, len(self._numbers)) for one in labels]
        return number[key]


def _first_uses(key: Int64s, size: int) -> Int64s:
    """The row in which each key, below `size`, occurs first; in ascending order."""
    known = np.zeros(size, dtype=bool)
    found = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, key.size, AT_ONCE):
        # Most keys occur early, so that few rows have one that is new.
        part = key[begin : begin + AT_ONCE]
        fresh = np.flatnonzero(~known[part])
        if fresh.size:
            first = np.sort(fresh[np.unique(part[fresh], return_index=True)[1]])
            known[part[first]] = True
            found.append(begin + first)
    return np.concatenate(found)


def _combined(columns: list[Texts]) -> tuple[Int64s, int]:
    """One number for each combination of texts, and a bound of these numbers."""
    key, size = columns[0].codes, len(columns[0].known)
    for column in columns[1:]:
        key, size = key * len(column.known) + column.codes, size * len(column.known)
        if size > max(FEW, key.size):
            distinct, key = np.unique(key, return_inverse=True)
            size = distinct.size
    return key, size
