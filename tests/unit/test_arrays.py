from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_series_equal

from solscope import arrays
from solscope.arrays import holds, numbers, pick, positions, series, take, texts_of, where

ARRAYS = {
    "int64": np.array([-(2**63), 0, 2**63 - 1]),
    "int32": np.array([-1, 5], np.int32),
    "uint32": np.array([0, 2**32 - 1], np.uint32),
    "bool": np.array([True, False]),
    "float64": np.array([1.5, np.nan]),
    "empty": np.zeros(0, np.int64),
    "strided": np.arange(10)[::3],
    "read-only": np.frombuffer(b"\x01\x00\x00\x00", np.uint32),
    "swapped": np.array([1, 2], ">i8"),
}


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS.keys())
@pytest.mark.parametrize("private", [True, False])
def test_a_series_is_what_polars_makes_of_the_array(
    values: np.ndarray[Any, Any], private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not private:
        monkeypatch.setattr(arrays, "_constructor", lambda _dtype: None)
    assert_series_equal(series("a", values), pl.Series("a", values))


def test_this_version_of_polars_has_the_constructors() -> None:
    assert all(arrays._constructor(dtype) is not None for dtype in arrays._CONSTRUCTORS)
    assert arrays._constructor("float64") is None


@pytest.mark.parametrize(
    "make",
    [
        lambda name, values: None,  # another signature
        lambda name, values, strict: pl.Series(name, values.tolist(), pl.Int8)._s,
        lambda name, values, strict: pl.Series(name, values[::-1].tolist()[1:], pl.Int64)._s,
    ],
)
def test_a_constructor_that_works_otherwise_is_not_used(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polars import _plr

    monkeypatch.setattr(_plr, "PySeries", SimpleNamespace(new_i64=make))
    arrays._constructor.cache_clear()
    try:
        assert arrays._constructor("int64") is None
        assert_series_equal(series("a", np.array([1, 2])), pl.Series("a", [1, 2]))
    finally:
        arrays._constructor.cache_clear()


def test_minus_one_is_no_position() -> None:
    assert positions("a", np.array([2, -1, 0])).to_list() == [2, None, 0]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["ab", "c", "ab", "a"], [True, False, True, True]),
        (["ab", None, "c"], [True, None, False]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_a_question_is_asked_once_for_each_text(
    texts: list[str | None], expected: list[bool | None]
) -> None:
    asked: list[str] = []

    def starts(distinct: pl.Series) -> pl.Series:
        asked.extend(distinct)
        return distinct.str.starts_with("a")

    names = pl.Series(texts, dtype=pl.Categorical())
    assert holds(names, starts).to_list() == expected
    assert sorted(asked) == sorted({text for text in texts if text is not None})


def test_chunks_do_not_matter() -> None:
    parts = [pl.Series(["x", "a"], dtype=pl.Categorical()) for _ in range(3)]
    names = pl.concat(parts, rechunk=False)
    assert holds(names, lambda texts: texts == "a").to_list() == [False, True] * 3


@pytest.mark.parametrize("dtype", [pl.UInt32, pl.Int64])
@pytest.mark.parametrize("rows", [[2, None, 0], [None, None], [], [1]])
def test_rows_are_taken_as_a_query_takes_them(
    dtype: type[pl.DataType], rows: list[int | None]
) -> None:
    values = pl.Series("a", ["x", None, "y"], dtype=pl.Categorical)
    at = pl.Series(rows, dtype=dtype)
    assert_series_equal(take(values, at), values.gather(at))
    assert numbers(at).tolist() == [-1 if row is None else row for row in rows]
    table = pl.DataFrame({"a": values, "b": [1, 2, 3]})
    expected = table.select(pl.all().gather(at))
    assert pick(table, at, ("b", "a")).equals(expected.select("b", "a"))


def test_a_row_past_the_end_is_refused() -> None:
    with pytest.raises(pl.exceptions.OutOfBoundsError):
        take(pl.Series([1]), pl.Series([1], dtype=pl.UInt32))


def test_null_is_not_where_something_is_true() -> None:
    assert where(pl.Series([True, None, False, True])).to_list() == [0, 3]
    assert where(pl.Series([], dtype=pl.Boolean)).to_list() == []


def test_no_text_holds_where_there_is_none() -> None:
    names = pl.Series([None, None], dtype=pl.Categorical)
    assert holds(names, lambda texts: texts == "a").to_list() == [None, None]


def test_texts_of_some_rows() -> None:
    column = pl.Series(["x", None, "y", "x"], dtype=pl.Categorical())
    found = texts_of(column).take(np.array([3, 1, 0]))
    assert [found.known[code] for code in found.codes] == ["x", None, "x"]
    assert sorted(map(str, (found.known[code] for code in found.used()))) == ["None", "x"]
