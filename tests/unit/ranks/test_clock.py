from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solscope.ranks.clock import align
from solscope.ranks.match import match
from tests.ranks_making import MS, US, Program, make, without

OFFSETS = [0, 1_234_567, -98_765_432, 55_000_000_000]
DRIFTS = [0.0, 15.0, -30.0, 5.0]


def test_offsets_and_drifts_are_recovered() -> None:
    run = make(
        Program(steps=300, offset=lambda rank: OFFSETS[rank], drift_ppm=lambda rank: DRIFTS[rank])
    )
    clock, times = align(run, match(run))
    assert clock.method == "collectives"
    # In the middle of the recording the drift has added half of its sum.
    ends = run.ranks[0].calls["end_ns"].to_numpy()
    span = (ends[-1] - ends[0]) / 1e9
    for row, offset, drift in zip(clock.ranks, OFFSETS, DRIFTS, strict=True):
        assert row.offset_us == pytest.approx(offset / US + drift * span / 2, abs=2.0)
        assert row.drift_ppm == pytest.approx(drift, abs=3.0)
    assert clock.error_us is not None
    assert clock.error_us < 5.0
    spread = np.nanmax(times.end, axis=1) - np.nanmin(times.end, axis=1)
    assert spread.max() < 8 * US


def test_clocks_that_agree_stay_and_show_no_drift() -> None:
    clock, _ = align(run := make(Program()), match(run))
    assert [row.drift_ppm for row in clock.ranks] == [0.0] * 4
    assert clock.recorded_apart_us is not None
    assert clock.recorded_apart_us < 2.0


def test_a_rank_that_is_always_late_does_not_move_its_clock() -> None:
    run = make(Program(late=lambda rank, _step, _call: 500 * US if rank == 1 else 0))
    clock, _ = align(run, match(run))
    assert abs(clock.ranks[1].offset_us or 0.0) < 2.0


def test_a_few_ends_that_lie_far_off_count_nothing() -> None:
    run = make(Program())
    calls = run.ranks[2].calls
    ends = calls["end_ns"].to_numpy().copy()
    ends[::7] += 90 * US
    ranks = list(run.ranks)
    ranks[2] = replace(ranks[2], calls=calls.with_columns(end_ns=ends))
    run = replace(run, ranks=tuple(ranks))
    clock, _ = align(run, match(run))
    assert abs(clock.ranks[2].offset_us or 0.0) < 3.0


def test_ranks_are_aligned_through_those_they_share_calls_with() -> None:
    whole = make(Program(ranks=3, steps=20, offset=lambda rank: 10 * MS * rank))
    # Ranks 0 and 2 share nothing: 1 has recorded both halves.
    run = without(without(whole, 0, range(60, 120)), 2, range(60))
    clock, _ = align(run, match(run))
    assert [round(row.offset_us or 0.0, -1) for row in clock.ranks] == [0, 10_000, 20_000]


def test_without_shared_collectives_there_is_no_clock() -> None:
    run = without(make(Program(ranks=2)), 1, range(57))
    clock, _ = align(run, match(run))
    assert clock.method == "durations"
    assert clock.error_us is None
    assert clock.reason is not None
