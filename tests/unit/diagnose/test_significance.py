from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solscope.diagnose.statistics.significance import fisher_p, mann_whitney_p, student_p, welch_p
from tests.sampling import some_rows

SAMPLES = [
    (n, m, shift, ties)
    for n, m in ((2, 2), (3, 9), (8, 7), (8, 40), (9, 9), (25, 60))
    for shift in (0.0, 0.4, 3.0)
    for ties in (False, True)
]


@pytest.fixture(scope="module")
def stats() -> Any:
    return pytest.importorskip("scipy.stats")


def drawn(n: int, m: int, shift: float, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n * 1000 + m)
    first, second = random.normal(10, 1, n), random.normal(10 + shift, 2.5, m)
    return (first.round(), second.round()) if ties else (first, second)


@pytest.mark.parametrize(("n", "m", "shift", "ties"), some_rows(SAMPLES, 2))
def test_mann_whitney_is_that_of_scipy(
    stats: Any, n: int, m: int, shift: float, ties: bool
) -> None:
    first, second = drawn(n, m, shift, ties)
    truth = stats.mannwhitneyu(first, second).pvalue
    assert mann_whitney_p(first, second) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(("n", "m", "shift", "ties"), [s for s in SAMPLES if not s[3]])
def test_welch_is_that_of_scipy(stats: Any, n: int, m: int, shift: float, ties: bool) -> None:
    first, second = drawn(n, m, shift, ties)
    truth = stats.ttest_ind(first, second, equal_var=False).pvalue
    assert welch_p(first, second) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    ("hits", "n", "other", "m"),
    [
        (3, 22, 22, 22),
        (5, 38, 10, 38),
        (4, 19, 0, 18),
        (0, 9, 0, 4),
        (7, 7, 1, 9),
        (300, 900, 1, 80),
    ],
)
def test_fisher_is_that_of_scipy(stats: Any, hits: int, n: int, other: int, m: int) -> None:
    truth = stats.fisher_exact([[hits, n - hits], [other, m - other]]).pvalue
    assert fisher_p(hits, n, other, m) == pytest.approx(truth, rel=1e-9)


def test_fisher_of_nothing_finds_nothing() -> None:
    assert fisher_p(0, 0, 3, 5) == 1.0


def test_welch_without_any_spread() -> None:
    assert welch_p(np.array([1.0, 1.0]), np.array([1.0, 1.0])) is None
    assert welch_p(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == 0.0


def test_welch_needs_two_values_on_each_side() -> None:
    assert welch_p(np.array([1.0]), np.array([1.0, 2.0])) is None


def test_mann_whitney_of_equal_values_finds_nothing() -> None:
    assert mann_whitney_p(np.ones(5), np.ones(4)) == 1.0
    assert mann_whitney_p(np.empty(0), np.ones(4)) == 1.0


def test_a_t_of_zero_is_certain() -> None:
    assert student_p(0.0, 7.0) == pytest.approx(1.0)
