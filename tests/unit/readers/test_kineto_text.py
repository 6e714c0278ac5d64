"""The texts of a trace: names, and JSON arguments without white space."""

from __future__ import annotations

import pytest

from solscope.readers.kineto_text import compact_json


@pytest.mark.parametrize(
    ("raw", "compact"),
    [
        (b"[[1, 2], []]", "[[1,2],[]]"),
        (b"[1,2]", "[1,2]"),
        (b'["a b", "c\td" ,\n 1]', '["a b","c\td",1]'),
        (rb'["a \" b", " c\\", 1]', r'["a \" b"," c\\",1]'),
        (b'["no end, 1 2', '["noend,12'),
        (b'[" "]', '[" "]'),
    ],
)
def test_white_space_is_removed_outside_strings_only(raw: bytes, compact: str) -> None:
    assert compact_json(raw) == compact
