"""Runs made of a real one, whose truth is known: what is done to them must not change the answer.

The real one is the bundled run of four ranks: another process computes on the GPU of rank 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from solscope.profile import ProfileWarning
from solscope.ranks.analysis import Analysis, analyze
from solscope.ranks.clock import align
from solscope.ranks.match import match
from solscope.ranks.read import make_run, open_run
from solscope.ranks.straggler import find_suspect
from solscope.run import Rank, Run

TIMES = ("start_ns", "end_ns")


@pytest.fixture(scope="module")
def real() -> Run:
    return open_run("demo:ranks")


@pytest.fixture(scope="module")
def answer(real: Run) -> Analysis:
    return analyze(real)


def moved(rank: Rank, offset_ns: int, drift_ppm: float = 0.0, zero: int = 0) -> Rank:
    """The rank with a clock that shows more, and drifts."""

    def shown(name: str) -> pl.Expr:
        drift = ((pl.col(name) - zero) * (drift_ppm * 1e-6)).round().cast(pl.Int64)
        return (pl.col(name) + offset_ns + drift).alias(name)

    tables = {
        name: getattr(rank, name).with_columns(*(shown(time) for time in TIMES))
        for name in ("calls", "steps")
    }
    return replace(rank, **tables)


def with_ranks(run: Run, ranks: Sequence[Rank]) -> Run:
    return replace(run, ranks=tuple(ranks))


@pytest.mark.parametrize("seed", range(2))
def test_clocks_change_no_answer(real: Run, answer: Analysis, seed: int) -> None:
    draw = np.random.default_rng(seed)
    offsets = draw.integers(-3_000_000, 3_000_000, 4).tolist()
    run = with_ranks(real, [moved(r, at) for r, at in zip(real.ranks, offsets, strict=True)])
    result = analyze(run)
    assert (result.suspect.rank, result.suspect.confidence) == (2, 0.857)
    assert result.why is not None
    assert result.why.why == "gpu"
    assert np.allclose(result.split.wait, answer.split.wait, atol=5_000, equal_nan=True)


@pytest.mark.parametrize("order", [(1, 3, 0, 2)])
def test_the_straggler_follows_its_rank(real: Run, answer: Analysis, order: list[int]) -> None:
    group = "0,1,2,3"
    ranks = [
        replace(rank, rank=number, calls=rank.calls.with_columns(group=pl.lit(group)))
        for rank, number in zip(real.ranks, order, strict=True)
    ]
    result = analyze(with_ranks(real, sorted(ranks, key=lambda rank: rank.rank)))
    assert result.suspect.rank == order[2]
    assert result.suspect.step_share_pct == pytest.approx(answer.suspect.step_share_pct, rel=0.02)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize(("first", "last"), [(20, 5)])
def test_a_recording_that_starts_or_ends_in_the_middle(
    real: Run, rank: int, first: int, last: int
) -> None:
    cut = replace(
        real.ranks[rank],
        calls=real.ranks[rank].calls[first : real.ranks[rank].calls.height - last],
    )
    result = analyze(with_ranks(real, [cut if r.rank == rank else r for r in real.ranks]))
    assert result.suspect.rank == 2
    assert sum(result.matched.unmatched.values()) == 0
    rows = result.matched.index[:, rank]
    assert (rows >= 0).sum() == cut.calls.height
    # Not one call is matched with its neighbor.
    others = result.matched.index[:, 1]
    assert np.array_equal(others[rows >= 0], np.arange(first, first + cut.calls.height))


@pytest.mark.parametrize("at", [30])
def test_a_call_more_or_less_moves_no_other_pair(real: Run, at: int) -> None:
    rank = real.ranks[1]
    less = replace(rank, calls=pl.concat([rank.calls[:at], rank.calls[at + 1 :]]))
    extra = rank.calls[at : at + 1].with_columns(*(pl.col(t) + 90_000 for t in TIMES))
    more = replace(rank, calls=pl.concat([rank.calls, extra]).sort("start_ns"))
    for changed, unmatched in ((less, 0), (more, 1)):
        result = analyze(with_ranks(real, [real.ranks[0], changed, *real.ranks[2:]]))
        assert result.suspect.rank == 2
        assert sum(result.matched.unmatched.values()) == unmatched
        assert (result.matched.index[:, [0, 2, 3]] >= 0).all()


def test_without_some_ranks_the_straggler_stays_and_the_missing_are_named(real: Run) -> None:
    run = make_run("run", [real.ranks[1], real.ranks[2]])
    assert [warning.code for warning in run.warnings] == ["ranks_missing"]
    assert isinstance(run.warnings[0], ProfileWarning)
    assert analyze(run).suspect.rank == 2


def test_without_the_straggler_nobody_is_named(real: Run) -> None:
    run = make_run("run", [rank for rank in real.ranks if rank.rank != 2])
    result = analyze(run)
    assert result.suspect.rank is None
    assert result.suspect.confidence < 0.8


def test_a_rank_that_joined_late_is_not_blamed_for_it(real: Run) -> None:
    late = real.ranks[1]
    joined = replace(
        late,
        calls=late.calls.filter(pl.col("step") >= 2).with_columns(pl.col("step") - 2),
        steps=late.steps.filter(pl.col("step") >= 2).with_columns(pl.col("step") - 2),
    )
    result = analyze(with_ranks(real, [real.ranks[0], joined, *real.ranks[2:]]))
    assert result.suspect.rank == 2
    assert result.steps.tolist() == [3, 4, 5]


@pytest.mark.parametrize("seed", range(2))
def test_ranks_that_are_late_by_turns_are_nobody(answer: Analysis, seed: int) -> None:
    """The lateness of each step, given to another rank each time."""
    draw = np.random.default_rng(seed)
    charge = answer.charge
    steps = np.arange(12)
    cost = np.tile(charge.cost, (3, 1))[:12]
    turned = np.stack(
        [np.roll(row, int(by)) for row, by in zip(cost, draw.integers(0, 4, 12), strict=True)]
    )
    lengths = np.tile(charge.length, 3)[:12]
    by_turns = replace(charge, steps=steps, cost=turned, length=lengths)
    suspect = find_suspect(by_turns, (0, 1, 2, 3), "gpu")
    assert suspect.rank is None or suspect.confidence < 0.8
    assert suspect.pattern == "wandering"


@pytest.mark.long
def test_clocks_of_64_ranks_are_recovered_within_five_microseconds(real: Run) -> None:
    draw = np.random.default_rng(3)
    offsets = draw.integers(-5_000_000, 5_000_000, 64)
    drifts = draw.uniform(-30, 30, 64)
    offsets[:4], drifts[:4] = 0, 0.0
    starts = [rank.calls["start_ns"] for rank in real.ranks]
    zero = min(int(column.to_numpy().min()) for column in starts)
    group = ",".join(map(str, range(64)))
    ranks = []
    for number in range(64):
        rank = moved(real.ranks[number % 4], int(offsets[number]), float(drifts[number]), zero)
        calls = rank.calls.with_columns(group=pl.lit(group))
        ranks.append(replace(rank, rank=number, path=f"rank{number}", calls=calls))
    run = replace(real, world_size=64, ranks=tuple(ranks))
    matched = match(run)
    assert (matched.index >= 0).all()
    clock, _ = align(run, matched)
    for number, row in enumerate(clock.ranks):
        # Beyond what the clock of the real rank showed already.
        base = clock.ranks[number % 4].offset_us
        middle = float(np.mean(real.ranks[number % 4].calls["end_ns"].to_numpy())) - zero
        true = (offsets[number] + drifts[number] * 1e-6 * middle) / 1e3
        assert row.offset_us is not None
        assert base is not None
        assert row.offset_us - base == pytest.approx(true, abs=5.0)
