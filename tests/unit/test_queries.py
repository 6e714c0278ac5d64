from __future__ import annotations

from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

import solscope
from solscope.queries import collect


def test_a_query_gives_its_table() -> None:
    table = pl.DataFrame({"a": [3, 1, 2], "b": ["x", None, "y"]})
    query = table.lazy().filter(pl.col("b").is_not_null()).sort("a")
    assert_frame_equal(collect(query), pl.DataFrame({"a": [2, 3], "b": ["y", "x"]}))


def test_no_other_module_chooses_that_engine() -> None:
    modules = Path(solscope.__file__).parent.rglob("*.py")
    named = [path.name for path in modules if 'engine="in-memory"' in path.read_text()]
    assert named == ["queries.py"]
