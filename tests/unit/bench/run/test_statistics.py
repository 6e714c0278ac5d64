"""Quantiles and noise of samples."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.run.statistics import is_noisy, quantile, timing  # noqa: E402


def test_quantiles_and_noise() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert not is_noisy([100.0, 100.5, 101.0, 100.2])
    found = timing([[1.0, 2.0], [3.0]], "events", 1)
    assert (found.median_us, found.samples_per_restart, found.noisy) == (2.0, [2, 1], True)
