from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

import solscope
from solscope.queries import collect


def test_a_query_gives_its_table() -> None:
    table = pl.DataFrame({"a": [3, 1, 2], "b": ["x", None, "y"]})
    query = table.lazy().filter(pl.col("b").is_not_null()).sort("a")
    assert_frame_equal(collect(query), pl.DataFrame({"a": [2, 3], "b": ["y", "x"]}))


def test_attribution_and_views_leave_the_engine_to_one_place() -> None:
    package = Path(solscope.__file__).parent
    asked = [
        path.name
        for folder in ("attribution", "views")
        for path in (package / folder).rglob("*.py")
        if re.search(r"(?<!gc)\.collect\(", path.read_text(encoding="utf-8"))
    ]
    assert asked == []
