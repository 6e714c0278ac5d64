"""When the reference is computed whole, and at which rows otherwise."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.run.reference import draw_rows  # noqa: E402


def test_rows_hold_both_ends_and_are_drawn_anew() -> None:
    assert draw_rows(5) == [0, 1, 2, 3, 4]
    first, second = draw_rows(10_000), draw_rows(10_000)
    assert len(set(first)) == 64
    assert (first[0], first[-1]) == (0, 9_999)
    assert first != second
