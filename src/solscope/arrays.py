"""NumPy arrays as Polars series, without what Polars imports on the way.

`pl.Series(array)` imports `numpy.ma` to rule out a masked array. That takes longer than many of our
commands compute, and no array here is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import numpy as np
import polars as pl

_CONSTRUCTORS: dict[str, tuple[str, type[pl.DataType]]] = {
    "int64": ("new_i64", pl.Int64),
    "int32": ("new_i32", pl.Int32),
    "uint32": ("new_u32", pl.UInt32),
    "bool": ("new_bool", pl.Boolean),
}
"""Private constructors of Polars by the type of the array, and what they must make."""


def series(name: str, values: np.ndarray[Any, Any]) -> pl.Series:
    """`pl.Series(name, values)` for an array of one dimension without a mask."""
    make = _constructor(values.dtype.name)
    if make is None or values.dtype.byteorder not in "=|":
        return pl.Series(name, values)
    return pl.Series._from_pyseries(make(name, np.ascontiguousarray(values), True))


def positions(name: str, values: np.ndarray[Any, Any]) -> pl.Series:
    """A series of indices, in which -1 is null."""
    indices = series(name, values)
    return indices.set(indices == -1, None)


def take(values: pl.Series, rows: pl.Series) -> pl.Series:
    """`values.gather(rows)` for row numbers, null for null: an index, which needs no query."""
    return values[rows if rows.dtype == pl.UInt32 else rows.cast(pl.UInt32)]


def where(mask: pl.Series) -> pl.Series:
    """Row numbers at which `mask` is true, without a query for them."""
    truth = mask.fill_null(False) if mask.null_count() else mask
    return series("", np.flatnonzero(truth.to_numpy()).astype(np.uint32))


def pick(table: pl.DataFrame, rows: pl.Series, columns: Iterable[str]) -> pl.DataFrame:
    """These rows of these columns of a table, without a query for them."""
    return pl.DataFrame([take(table[name], rows) for name in columns])


def numbers(rows: pl.Series) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row numbers as an array, in which null is -1; NumPy looks up fastest by 64 bits."""
    values = rows.to_numpy()  # of floats where there are nulls
    if rows.null_count():
        values = np.where(np.isnan(values), -1, values)
    return values.astype(np.int64)


class Texts(msgspec.Struct, frozen=True):
    """A text for each row, or none, as a number."""

    codes: np.ndarray[Any, np.dtype[np.int64]]
    known: list[str | None]
    """Distinct texts, by code."""

    def take(self, rows: np.ndarray[Any, np.dtype[np.int64]] | slice) -> Texts:
        """Those of some rows; distinct texts that none of them has stay."""
        return Texts(self.codes[rows], self.known)

    def used(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Codes of the distinct texts that some row has, in ascending order."""
        return np.flatnonzero(np.bincount(self.codes, minlength=len(self.known)))


def texts_of(column: pl.Series) -> Texts:
    """The texts of a column, each looked up once; null is one of them."""
    if column.dtype not in (pl.Categorical, pl.Enum):
        column = column.cast(pl.Categorical())
    codes = numbers(column.to_physical())
    # A row for each code that occurs; which one does not matter. The last is for -1, null.
    row = np.full(int(codes.max()) + 2 if codes.size else 1, -1, dtype=np.int64)
    row[codes] = np.arange(codes.size)
    present = np.flatnonzero(row >= 0)
    known = take(column, series("", row[present])).cast(pl.String).to_list()
    row[present] = np.arange(present.size)
    return Texts(row[codes], known)


def holds(names: pl.Series, test: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """`test` of the texts of a categorical series, asked once for each distinct text."""
    if names.null_count():
        if names.null_count() == names.len():
            return pl.Series([None], dtype=pl.Boolean).new_from_index(0, names.len())
        present = names.is_not_null()
        matched = holds(names.filter(present), test).to_numpy()
        answer = np.zeros(names.len(), dtype=bool)
        answer[present.to_numpy()] = matched
        return series("", answer).set(~present, None)
    codes = numbers(names.to_physical())
    if not codes.size:
        return pl.Series(dtype=pl.Boolean)
    # A row for each code that occurs; which one does not matter.
    row = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    row[codes] = np.arange(codes.size)
    distinct = np.flatnonzero(row >= 0)
    texts = take(names, series("", row[distinct])).cast(pl.String)
    answers = np.zeros(row.size, dtype=bool)
    answers[distinct] = test(texts).to_numpy()
    return series("", answers[codes])


@cache
def _constructor(dtype: str) -> Any:
    """The constructor for a type; None when this version of Polars has none that works so."""
    if dtype not in _CONSTRUCTORS:
        return None
    name, expected = _CONSTRUCTORS[dtype]
    sample = np.array([0, 1, 0], dtype)
    try:
        from polars._plr import PySeries

        make = getattr(PySeries, name)
        made = pl.Series._from_pyseries(make("a", sample, True))
        works = made.equals(pl.Series("a", sample.tolist(), dtype=expected), check_dtypes=True)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    return make if works else None
