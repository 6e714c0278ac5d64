from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from solscope.resample import (
    TwoSamples,
    block_length,
    bounds,
    generator,
    mean_intervals,
    nested_medians,
    resampled_means,
    split_noise,
    weighted_ratio,
    widen,
)

DRAW = np.random.default_rng(7)
STEADY = np.array([1000.0, 1010, 990, 1005, 995, 1000, 1010, 990])
SLOWER = STEADY + 100


# --- Steps


def test_the_interval_is_the_same_every_time_and_holds_the_ratio() -> None:
    before, after = STEADY, SLOWER
    found = TwoSamples(before, after).ratio()
    assert found == TwoSamples(before, after).ratio()
    assert found.value == pytest.approx(1.1)
    assert 1.08 < found.low < 1.1 < found.high < 1.12


def test_draws_that_are_kept_are_those_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = DRAW.normal(10, 1, 30), DRAW.normal(12, 1, 20)
    kept = TwoSamples(before, after).ratio()
    monkeypatch.setattr("solscope.resample._CACHED_CELLS", 0)
    monkeypatch.setattr("solscope.resample._CELLS", 1000)
    assert TwoSamples(before, after).ratio() == kept


def test_constant_steps_give_an_interval_without_width() -> None:
    found = TwoSamples(np.full(6, 2.0), np.full(9, 3.0)).ratio()
    assert found == pytest.approx((1.5, 1.5, 1.5))


def test_of_intervals_over_steps_that_do_not_differ_nearly_all_hold_one() -> None:
    draw = np.random.default_rng(1)
    samples = [np.exp(0.1 * draw.normal(size=(2, 8))) for _ in range(60)]
    held = [low <= 1 <= high for _, low, high in (TwoSamples(a, b).ratio() for a, b in samples)]
    assert sum(held) >= 53


def test_a_ratio_over_phases_weighs_them_as_given() -> None:
    flat = [np.full(6, 10.0), np.full(6, 100.0)]
    after = [np.full(6, 20.0), np.full(6, 100.0)]
    assert weighted_ratio(flat, after, [0.5, 0.5])[0] == pytest.approx(120 / 110)
    assert weighted_ratio(flat, after, [1.0, 0.0])[0] == pytest.approx(2.0)


def test_noise_of_a_run_grows_with_its_spread_and_needs_four_steps() -> None:
    calm, wild = (split_noise(DRAW.normal(100, s, 40), 0.99) for s in (1, 20))
    assert calm is not None
    assert wild is not None
    assert calm < 0.02 < wild
    assert split_noise(np.array([1.0, 2.0, 3.0]), 0.99) is None


def test_one_stratum_is_the_whole_run() -> None:
    before, after = DRAW.normal(10, 1, 30), DRAW.normal(12, 1, 30)
    # One draw apart, of ten thousand.
    assert weighted_ratio([before], [after], [1.0]) == pytest.approx(
        TwoSamples(before, after).ratio(), rel=1e-3
    )


def test_a_difference_of_weighted_means_is_held_by_its_interval() -> None:
    before, after = DRAW.normal(10, 1, 40), DRAW.normal(12, 1, 40)
    low, high = TwoSamples(before, after).difference((0.5, 1.0))
    assert low < after.mean() - before.mean() / 2 < high
    assert high - low < 2


# --- Profiles


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    values = np.random.default_rng(1).beta(2, 5, size=(20, 4000))
    bounds = mean_intervals(values, np.ones(20))
    assert bounds is not None
    hits = (bounds[0] <= 2 / 7) & (bounds[1] >= 2 / 7)
    assert 0.93 <= hits.mean() <= 0.97


def test_weights_count_in_intervals() -> None:
    parts = np.array([[0.9 * 100], [0.1], [0.1], [0.1]])
    bounds = mean_intervals(parts, np.array([100.0, 1, 1, 1]))
    assert bounds is not None
    assert bounds[1, 0] > 0.85
    assert mean_intervals(parts[:1], np.ones(1)) is None


# --- Samples within processes


def test_processes_that_differ_make_a_median_less_sure() -> None:
    alike = [DRAW.normal(10, 0.1, 20) for _ in range(3)]
    apart = [part + shift for part, shift in zip(alike, (0, 1, 2), strict=True)]
    widths = []
    for processes in (alike, apart):
        low, high = bounds(nested_medians(processes, generator()))
        widths.append(high - low)
    assert widths[0] < 0.2 < 1.5 < widths[1]


@pytest.mark.parametrize(
    ("size", "student", "within"), [(2, 12.706, 0.7), (5, 2.77645, 0.02), (30, 2.04523, 1e-3)]
)
def test_intervals_of_few_values_are_widened_as_student_has_them(
    size: int, student: float, within: float
) -> None:
    # Student's 97.5 % quantile for size - 1 degrees of freedom, from a table, over the normal one.
    # The expansion is short of the largest quantiles, never beyond them.
    exact = student / 1.959964 * math.sqrt(size / (size - 1))
    assert exact * (1 - within) <= widen(size) <= exact


def test_a_single_value_is_widened_as_two_are_but_for_the_bias() -> None:
    assert widen(1) == pytest.approx(widen(2) / math.sqrt(2))


def test_widening_fades_with_the_number_of_values() -> None:
    sizes = [2, 3, 5, 10, 100, 10_000]
    factors = [widen(size) for size in sizes]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == pytest.approx(1, abs=2e-4)


def test_resampled_means_spread_as_the_widened_mean_does() -> None:
    # Three values are drawn one by one: standard error sqrt(2/3) / sqrt(3), times widen(3) = 2.41
    (means,) = resampled_means([np.array([1.0, 2.0, 3.0])])
    assert means.mean() == pytest.approx(2, abs=0.03)
    assert means.std() == pytest.approx(math.sqrt(2) / 3 * widen(3), rel=0.03)


def test_intervals_over_profiles_are_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, weights = np.array([[0.4], [0.5], [0.6]]), np.ones(3)
    widened = mean_intervals(parts, weights)
    monkeypatch.setattr("solscope.resample.widen", lambda size: 1.0)
    narrow = mean_intervals(parts, weights)
    assert widened is not None
    assert narrow is not None
    assert np.ptp(widened) == pytest.approx(widen(3) * np.ptp(narrow))


@pytest.mark.parametrize(("size", "length"), [(1, 1), (3, 1), (8, 2), (27, 3), (1000, 10)])
def test_steps_are_drawn_in_blocks_of_the_cube_root(size: int, length: int) -> None:
    assert block_length(size) == length


def test_noise_of_a_run_is_that_of_two_runs_of_its_length() -> None:
    spread, size = 0.02, 1000
    found = [
        split_noise(1 + spread * np.random.default_rng(seed).normal(size=size), 0.99)
        for seed in range(8)
    ]
    # 99 % of the differences of two means of so many values.
    expected = NormalDist().inv_cdf(0.995) * np.sqrt(2) * spread / np.sqrt(size)
    assert np.mean([value for value in found if value is not None]) == pytest.approx(
        expected, rel=0.15
    )
