"""What ran at the same time, by what is hidden under what."""

from __future__ import annotations

import polars as pl
import pytest

from solscope.views.overlap import overlaps

Run = tuple[int, int, str, str | None]
"""Start, end, category and role."""


def found(*runs: Run, passes: int = 1) -> dict[tuple[str, str], int]:
    """Pairs of what overlaps, in `passes` passes that are all alike."""
    rows = pl.DataFrame(
        [
            (number, start, end - start, category, role)
            for number in range(passes)
            for start, end, category, role in runs
        ],
        schema=["pass", "start_ns", "dur_ns", "category", "role"],
        orient="row",
    )
    return dict(overlaps(rows, ["pass"]))


@pytest.mark.parametrize(
    ("runs", "pairs"),
    [
        ([(0, 10, "gemm", "qkv"), (10, 20, "gemm", "o_proj")], {}),
        ([(0, 10, "gemm", "down"), (4, 12, "comm", "all_reduce")], {("all_reduce", "down"): 6}),
        ([(0, 10, "comm", "all_reduce"), (4, 12, "gemm", "down")], {("all_reduce", "down"): 6}),
        ([(0, 10, "gemm", "up_gate"), (8, 14, "gemm", "down")], {("down", "up_gate"): 2}),
        ([(0, 10, "gemm", None), (2, 4, "memcpy", "other")], {("memcpy", "gemm"): 2}),
    ],
    ids=["one by one", "communication hides", "whoever began", "the later hides", "no roles"],
)
def test_pairs(runs: list[Run], pairs: dict[tuple[str, str], int]) -> None:
    assert found(*runs) == pairs


def test_the_sum_is_exactly_what_overlaps() -> None:
    """Three at once count twice; a long activity covers several."""
    runs: list[Run] = [
        (0, 100, "gemm", "up_gate"),
        (10, 30, "comm", "all_reduce"),
        (20, 40, "memcpy", None),
        (90, 110, "gemm", "down"),
    ]
    made = found(*runs)
    assert made == {
        ("all_reduce", "up_gate"): 20,
        ("memcpy", "up_gate"): 20,
        ("down", "up_gate"): 10,
    }
    assert sum(made.values()) == sum(end - start for start, end, *_ in runs) - 110


def test_passes_do_not_overlap_each_other() -> None:
    assert found((0, 10, "gemm", "qkv"), (5, 15, "gemm", "o_proj"), passes=3) == {
        ("o_proj", "qkv"): 15
    }
