"""Sparklines: values in order, as blocks."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.report.layout.sparkline import BLOCKS, Values, sparkline, thinned, top_of

DRAWN: dict[str, tuple[Values, str]] = {
    "every height": ([0, 1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇██"),
    "heights start at 0": ([100.0, 101.0], "██"),
    "nothing but zeros": ([0.0, 0.0], "▁▁"),
    "below 0": ([-5.0, 8.0], "▁█"),
    "gaps": ([8.0, None, nan, inf, 4.0], "█   ▅"),
    "no value at all": ([None, None], "  "),
    "empty": ([], ""),
}


@pytest.mark.parametrize("name", DRAWN)
def test_values_become_blocks(name: str) -> None:
    values, line = DRAWN[name]
    assert sparkline(values, 12) == line


def test_two_lines_share_a_scale() -> None:
    fast, slow = [2.0, 2.0], [8.0, 4.0]
    top = top_of(fast, slow)
    assert (sparkline(fast, 9, top=top), sparkline(slow, 9, top=top)) == ("▃▃", "█▅")


def test_the_scale_of_nothing() -> None:
    assert top_of([], [None, nan]) == 0.0


def test_a_peak_among_many_values_stays() -> None:
    values = [1.0] * 1000
    values[617] = 8.0
    assert sparkline(values, 10) == "▂▂▂▂▂▂█▂▂▂"


def test_a_dip_among_many_values_stays() -> None:
    values = [8.0] * 1000
    values[42] = 1.0
    assert sparkline(values, 10) == "▂█████████"


def test_of_two_values_as_far_from_the_median_the_larger_is_kept() -> None:
    assert thinned([1.0, 3.0, 2.0, 2.0], 2) == [3.0, 2.0]


@given(
    st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=200),
    st.integers(1, 60),
)
def test_any_values_fit(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= {*BLOCKS, " "}
    assert line == sparkline(values, width)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.integers(1, 40))
def test_the_largest_or_the_smallest_value_is_kept(values: list[int], width: int) -> None:
    kept = thinned(values, width)
    assert max(values) in kept or min(values) in kept
    assert [value for value in kept if value not in values] == []
