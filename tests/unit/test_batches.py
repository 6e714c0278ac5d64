"""Items are put together up to a size, in order."""

from __future__ import annotations

import pytest

from solscope.batches import batches


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], []),
        ([3, 4, 9, 2], [[3, 4], [9], [2]]),
        ([4, 4, 1], [[4, 4], [1]]),
        ([9], [[9]]),
        ([0, 8, 0], [[0, 8, 0]]),
    ],
)
def test_sizes_add_up_to_at_most_the_limit(sizes: list[int], wanted: list[list[int]]) -> None:
    assert list(batches(sizes, lambda size: size, most=8)) == wanted
