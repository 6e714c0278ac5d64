from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solscope.diagnose.statistics.two_samples import (
    benjamini_hochberg,
    cliffs_delta,
    compare,
    equivalence_p,
    hodges_lehmann_ratio,
    state_of,
)
from solscope.resample import TwoSamples

DRAW = np.random.default_rng(7)
STEADY = DRAW.normal(100, 2, 20)
SLOWER = DRAW.normal(130, 5, 24)


@pytest.fixture(scope="module")
def reference() -> Any:
    return pytest.importorskip("scipy.stats")


def test_tests_agree_with_scipy(reference: Any) -> None:
    found = compare(TwoSamples(STEADY, SLOWER), 4, 0.03)
    u = reference.mannwhitneyu(STEADY, SLOWER)
    t = reference.ttest_ind(STEADY, SLOWER, equal_var=False)
    assert found.p_mann_whitney == pytest.approx(u.pvalue, rel=1e-6)
    assert found.p_welch == pytest.approx(t.pvalue, rel=1e-6)


def test_ties_and_small_samples_agree_with_scipy(reference: Any) -> None:
    few, many = np.array([1.0, 2.0, 3.0, 9.0]), np.array([4.0, 5.0, 6.0, 7.0, 8.0])
    tied = np.array([1.0, 1.0, 2.0, 2.0, 3.0])
    for before, after in ((few, many), (tied, tied + 1)):
        expected = reference.mannwhitneyu(before, after).pvalue
        assert compare(TwoSamples(before, after), 4, 0.03).p_mann_whitney == pytest.approx(
            expected, rel=1e-6
        )


def test_effects() -> None:
    found = compare(TwoSamples(STEADY, SLOWER), 4, 0.03)
    assert found.ratio == pytest.approx(1.3, abs=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.3 < found.high
    assert found.cliff == 1.0
    assert cliffs_delta(SLOWER, STEADY) == -1.0
    assert cliffs_delta(STEADY, STEADY) == 0.0


def test_hodges_lehmann_is_the_median_of_all_ratios_and_needs_positive_values() -> None:
    assert hodges_lehmann_ratio(np.array([1.0, 2.0]), np.array([4.0, 8.0])) == pytest.approx(4.0)
    assert hodges_lehmann_ratio(np.array([0.0, 2.0]), np.array([4.0])) is None


def test_too_few_values_are_not_tested() -> None:
    found = compare(TwoSamples(np.array([1.0, 2.0, 3.0]), SLOWER), 4, 0.03)
    assert (found.n, found.normal, found.p_mann_whitney) == ([3, 24], 2.0, None)
    assert state_of(found, None, 0.05, 0.03) == "not_tested"


def test_states() -> None:
    same = DRAW.normal(100, 0.2, 30)
    again = DRAW.normal(100, 0.2, 30)
    noisy = DRAW.normal(100, 30, 6)
    for before, after, expected in (
        (STEADY, SLOWER, "changed"),
        (same, again, "unchanged"),
        (noisy, DRAW.normal(104, 30, 6), "unclear"),
    ):
        found = compare(TwoSamples(before, after), 4, 0.03)
        assert state_of(found, found.p_mann_whitney, 0.05, 0.03) == expected


def test_false_discovery_rate_agrees_with_scipy_and_skips_what_was_not_tested(
    reference: Any,
) -> None:
    p_values = [0.001, None, 0.04, 0.03, 0.5]
    expected = reference.false_discovery_control([0.001, 0.04, 0.03, 0.5])
    found = benjamini_hochberg(p_values)
    assert found[1] is None
    assert [q for q in found if q is not None] == pytest.approx(list(expected))


def test_equivalence_needs_proof() -> None:
    close = DRAW.normal(100, 0.5, 20)
    assert (equivalence_p(close, DRAW.normal(100, 0.5, 20), 0.03) or 1) < 0.01
    assert (equivalence_p(close, DRAW.normal(110, 0.5, 20), 0.03) or 0) > 0.99
    wide = DRAW.normal(100, 30, 5)
    assert (equivalence_p(wide, DRAW.normal(100, 30, 5), 0.03) or 0) > 0.2
