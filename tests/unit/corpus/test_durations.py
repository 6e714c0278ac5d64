from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from solscope.corpus.durations import counts, quantiles_of, to_bits


def rounded(values: list[int]) -> list[int]:
    return pl.DataFrame({"ns": values}).select(to_bits(pl.col("ns")))["ns"].to_list()


@given(st.lists(st.integers(0, 2**61), min_size=1, max_size=50))
def test_a_rounded_duration_is_within_0_8_percent(values: list[int]) -> None:
    for value, found in zip(values, rounded(values), strict=True):
        assert abs(found - value) <= value / 128


def test_short_durations_are_exact_and_neighbors_share_a_bucket() -> None:
    assert rounded([0, 1, 127, 128, 129, 20_000, 20_001]) == [0, 1, 127, 129, 129, 20_096, 20_096]


def test_quantiles_of_merged_counts_are_those_of_all_calls() -> None:
    draw = np.random.default_rng(0)
    calls = [draw.integers(1000, 90_000, 200) for _ in range(5)]
    rows = pl.DataFrame(
        [
            {"key": "a", "durations_ns": sorted(set(rounded(part.tolist())))}
            | {"durations_calls": np.unique(rounded(part.tolist()), return_counts=True)[1].tolist()}
            for part in calls
        ]
    )
    found = quantiles_of(counts(rows.lazy(), ["key"]), ["key"], (0.5, 0.9)).collect()
    for name, share in (("q50", 0.5), ("q90", 0.9)):
        exact = np.quantile(np.concatenate(calls), share, method="inverted_cdf")
        assert abs(found[name][0] / exact - 1) < 0.008
