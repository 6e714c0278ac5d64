"""Intervals, checked on cases small enough to see; `fuzz/test_properties.py` has the laws."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from solscope import intervals
from solscope.intervals import (
    Int64s,
    Intervals,
    Stray,
    covered_before,
    find_stray,
    gaps,
    innermost,
    nest,
    nesting_depth,
    overlap,
    union,
)

Spans = list[tuple[int, int]]

LEVELS = 60_000


def columns(spans: Spans) -> tuple[Int64s, Int64s]:
    """Starts and ends."""
    table = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def ints(*values: int) -> Int64s:
    return np.array(values, dtype=np.int64)


def spans(intervals: Intervals) -> Spans:
    return list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


# union, gaps

UNIONS: dict[str, tuple[Spans, Spans]] = {
    "empty": ([], []),
    "apart": ([(5, 7), (0, 2)], [(0, 2), (5, 7)]),
    "touching": ([(0, 2), (2, 4)], [(0, 4)]),
    "crossing": ([(0, 3), (2, 5)], [(0, 5)]),
    "nested": ([(0, 9), (2, 3), (4, 5)], [(0, 9)]),
    "equal": ([(1, 2), (1, 2)], [(1, 2)]),
    "zero length alone": ([(0, 1), (5, 5)], [(0, 1), (5, 5)]),
    "zero length at an end": ([(0, 5), (5, 5)], [(0, 5)]),
    "before zero": ([(-9, -7), (-8, 1)], [(-9, 1)]),
}


@pytest.mark.parametrize("case", UNIONS)
def test_union(case: str) -> None:
    given, expected = UNIONS[case]
    assert spans(union(*columns(given))) == expected


def test_length_counts_what_is_covered_once() -> None:
    assert union(*columns([(0, 4), (2, 6), (10, 11)])).length == 7


def test_length_of_nothing() -> None:
    assert union(*columns([])).length == 0


GAPS: dict[str, tuple[Spans, Spans]] = {
    "empty": ([], []),
    "one": ([(3, 5)], []),
    "touching": ([(0, 2), (2, 4)], []),
    "two gaps": ([(0, 2), (3, 5), (9, 10)], [(2, 3), (5, 9)]),
    "zero length in a gap": ([(0, 1), (3, 3), (5, 6)], [(1, 3), (3, 5)]),
}


@pytest.mark.parametrize("case", GAPS)
def test_gaps(case: str) -> None:
    busy, expected = GAPS[case]
    assert spans(gaps(union(*columns(busy)))) == expected


# covered_before, overlap

COVER = union(*columns([(10, 20), (30, 35)]))


def test_covered_before() -> None:
    at = ints(0, 10, 15, 20, 25, 30, 33, 35, 99)
    assert covered_before(COVER, at).tolist() == [0, 0, 5, 10, 10, 10, 13, 15, 15]


def test_covered_before_points_out_of_order() -> None:
    assert covered_before(COVER, ints(99, 15, 0)).tolist() == [15, 5, 0]


def test_nothing_covers_nothing() -> None:
    empty = union(*columns([]))
    assert covered_before(empty, ints(1, 2)).tolist() == [0, 0]
    assert overlap(ints(0), ints(9), empty).tolist() == [0]


def test_no_points() -> None:
    assert covered_before(COVER, ints()).tolist() == []


OVERLAPS = {
    (0, 99): 15,
    (12, 14): 2,
    (15, 32): 7,
    (20, 30): 0,
    (0, 10): 0,
    (15, 15): 0,
    (40, 50): 0,
}


@pytest.mark.parametrize("span", OVERLAPS)
def test_overlap(span: tuple[int, int]) -> None:
    assert overlap(ints(span[0]), ints(span[1]), COVER).tolist() == [OVERLAPS[span]]


# nest

NESTS: dict[str, tuple[Spans, list[int]]] = {
    "empty": ([], []),
    "one": ([(0, 1)], [-1]),
    "apart": ([(0, 1), (2, 3)], [-1, -1]),
    "touching": ([(0, 5), (5, 9)], [-1, -1]),
    "two levels": ([(0, 9), (1, 4), (2, 3), (5, 6)], [-1, 0, 1, 0]),
    "any order": ([(2, 3), (0, 9), (1, 4)], [2, -1, 1]),
    "same start": ([(0, 3), (0, 9)], [1, -1]),
    "same end": ([(0, 9), (4, 9)], [-1, 0]),
    "equal: the first is outer": ([(0, 9), (0, 9)], [-1, 0]),
    "zero length inside": ([(0, 9), (4, 4)], [-1, 0]),
    "zero length at the start": ([(0, 9), (0, 0)], [-1, 0]),
    "zero length at the end": ([(0, 9), (9, 9)], [-1, -1]),
    "crossing": ([(0, 5), (3, 8)], [-1, 0]),
    "crossing, then inside the second": ([(0, 5), (3, 8), (6, 7)], [-1, 0, 1]),
    "crossing, then after both": ([(0, 5), (3, 8), (8, 9)], [-1, 0, -1]),
}


DEPTHS = {
    "two levels": [0, 1, 2, 1],
    "any order": [2, 0, 1],
    "same start": [1, 0],
    "crossing, then inside the second": [0, 1, 2],
    "crossing, then after both": [0, 1, 0],
}


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("case", NESTS)
def test_nest(case: str) -> None:
    given, expected = NESTS[case]
    assert nest(*columns(given)).tolist() == expected


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("case", DEPTHS)
def test_depth(case: str) -> None:
    assert nesting_depth(*columns(NESTS[case][0])).tolist() == DEPTHS[case]


@pytest.mark.usefixtures("core")
def test_depth_of_intervals_in_any_order_counts_what_nest_finds() -> None:
    random = np.random.default_rng(3)
    for _ in range(30):
        start = random.integers(0, 30, 60)
        end = start + random.integers(0, 15, 60)
        parent = nest(start, end).tolist()
        expected = []
        for at in range(60):
            depth = 0
            while (at := parent[at]) >= 0:
                depth += 1
            expected.append(depth)
        assert nesting_depth(start, end).tolist() == expected


def test_the_native_loop_is_built_with_the_scanner() -> None:
    pytest.importorskip("solscope._native._scanner")
    assert import_module("solscope._native._nesting").nest


def test_the_native_loop_takes_buffers_of_one_length() -> None:
    native = pytest.importorskip("solscope._native._nesting").nest
    with pytest.raises(ValueError, match="of one length"):
        native(ints(1), ints(2), ints(0, 0), ints(0))


def crossing() -> tuple[Int64s, Int64s]:
    """Calls of one thread, some of which end after the one around them."""
    random = np.random.default_rng(7)
    start = np.sort(random.integers(0, 100_000, 5_000))
    return start, start + random.geometric(0.02, start.size) ** 2


@pytest.mark.usefixtures("core")
def test_nest_intervals_that_start_together() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        start = np.sort(random.integers(0, 20, 40))
        end = start + random.integers(0, 10, 40)
        order = np.lexsort((-np.maximum(end, start + 1), start))
        expected = np.empty(40, dtype=np.int64)
        above = intervals._nest_by_stack(start[order], np.maximum(end, start + 1)[order])
        expected[order] = np.where(above >= 0, order[above], -1)
        assert nest(start, end).tolist() == expected.tolist()


def test_nest_many_that_cross_without_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLSCOPE_CORE", "python")
    start, end = crossing()
    expected = intervals._nest_by_stack(*sorted_by_start(start, end))
    monkeypatch.setattr(intervals, "_nest_by_stack", lambda *_: pytest.fail("used the stack"))
    assert nest(*sorted_by_start(start, end)).tolist() == np.asarray(expected).tolist()


@pytest.mark.usefixtures("core")
def test_nest_calls_that_return_from_far_below() -> None:
    # Each call after the deep ones has to pass all of them.
    start, end = deep()
    end[1:] = LEVELS + 1
    after = np.arange(LEVELS + 1, 2 * LEVELS - 1, dtype=np.int64)
    found = nest(np.concatenate((start, after)), np.concatenate((end, after + 1)))
    assert found.tolist() == [*range(-1, LEVELS - 1), *[0] * after.size]


def sorted_by_start(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    order = np.lexsort((-end, start))
    return start[order], end[order]


# innermost

STACK: Spans = [(0, 10), (2, 8), (3, 5), (12, 14)]


def test_innermost() -> None:
    at = ints(-1, 0, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14)
    assert innermost(at, *columns(STACK)).tolist() == [-1, 0, 1, 2, 2, 1, 0, 0, -1, 3, 3, -1]


def test_innermost_of_points_and_intervals_in_any_order() -> None:
    assert innermost(ints(13, 4, 9), *columns(STACK[::-1])).tolist() == [0, 1, 3]


def test_innermost_where_there_is_nothing() -> None:
    assert innermost(ints(1, 2), *columns([])).tolist() == [-1, -1]
    assert innermost(ints(), *columns(STACK)).tolist() == []


def test_a_zero_length_interval_holds_no_point() -> None:
    assert innermost(ints(3, 4), *columns([(0, 9), (4, 4)])).tolist() == [0, 0]


def test_of_crossing_intervals_the_later_one_is_the_inner() -> None:
    at = ints(2, 4, 6, 8)
    assert innermost(at, *columns([(0, 5), (3, 8)])).tolist() == [0, 1, 1, -1]


# A deep stack: quadratic work on it would take minutes


def deep() -> tuple[Int64s, Int64s]:
    level = np.arange(LEVELS, dtype=np.int64)
    return level, 2 * LEVELS - level


def test_nest_a_deep_stack() -> None:
    assert nest(*deep()).tolist() == list(range(-1, LEVELS - 1))


def test_innermost_of_a_deep_stack() -> None:
    at = np.arange(LEVELS, dtype=np.int64)
    assert innermost(at, *deep()).tolist() == list(range(LEVELS))


def test_a_deep_stack_with_one_crossing() -> None:
    start, end = deep()
    end[-1] = 3 * LEVELS
    assert nest(start, end).tolist() == list(range(-1, LEVELS - 1))
    assert innermost(start, start, end).tolist() == list(range(LEVELS))


# find_stray

MANY: Spans = [(at, at + 1) for at in range(1000, 1100)]
STRAYS: dict[str, tuple[Spans, Stray | None]] = {
    "empty": ([], None),
    "one": ([(0, 1)], None),
    "no gap": ([(0, 1), (1, 2)], None),
    "one before": ([(0, 1), *MANY], Stray(999, 1, 1000, 1, True)),
    "one after": ([*MANY, (2000, 2001)], Stray(900, 1100, 2000, 1, False)),
    "too many to be strays": ([(0, 1), (1, 2), (2, 3), *MANY], None),
    "not far": ([*MANY, (1130, 1131)], None),
    "a zero-length one": ([(0, 0), *MANY], Stray(1000, 0, 1000, 1, True)),
}


@pytest.mark.parametrize("case", STRAYS)
def test_find_stray(case: str) -> None:
    given, expected = STRAYS[case]
    assert find_stray(*columns(given), one_in=50) == expected


def test_a_gap_of_just_a_quarter_of_the_span_is_no_stray() -> None:
    start, end = columns([(0, 70), (95, 100)])
    assert find_stray(start, end, one_in=2) is None
    start, end = columns([(0, 70), (96, 100)])
    assert find_stray(start, end, one_in=2) == Stray(26, 70, 96, 1, True)


@pytest.mark.parametrize("order", ["by start", "as drawn"])
def test_overlap_is_the_cover_before_the_end_less_that_before_the_start(order: str) -> None:
    draw = np.random.default_rng(3)
    for _ in range(200):
        start = draw.integers(-50, 100, 20)
        if order == "by start":
            start.sort()
        end = start + draw.integers(-5, 40, 20)  # in damaged files some end before they start
        begun = draw.integers(-50, 100, draw.integers(0, 8))
        cover = union(begun, begun + draw.integers(1, 10, begun.size))
        wanted = covered_before(cover, end) - covered_before(cover, start)
        assert overlap(start, end, cover).tolist() == wanted.tolist()
