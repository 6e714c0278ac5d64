"""Limits of the analysis of ranks, each at its edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from solscope.ranks.analysis import analyze
from solscope.ranks.clock import align
from solscope.ranks.lengths import step_lengths
from solscope.ranks.match import match
from solscope.ranks.straggler import Charge, find_suspect
from solscope.ranks.waiting import _baseline
from solscope.ranks.why import Work, _kernels, explain
from solscope.run import WORK_SCHEMA, Run
from solscope.views.ranks import rank_table
from tests.ranks_making import MS, US, Program, make, without


def test_lateness_that_comes_in_one_stretch_is_less_sure_than_the_same_spread_out() -> None:
    # 20 % of 16 steps on average. Steps drawn one by one would name the rank in both cases.
    late = np.array([[0.4, 0.0]] * 8 + [[0.0, 0.0]] * 8)
    stretch, spread = (
        find_suspect(Charge(np.arange(16), cost, np.full(16, 1.0)), (0, 1), "gpu")
        for cost in (late, late[np.argsort(np.arange(16) % 8, kind="stable")])
    )
    assert 0.5 < stretch.confidence < 0.8
    assert stretch.rank is None
    assert stretch.leader == 0
    assert spread.rank == 0


def test_the_last_rank_costs_what_it_came_later_than_the_next_to_last() -> None:
    late = {2: 250 * US, 3: 300 * US}
    split = analyze(make(Program(jitter=0, late=lambda rank, *_: late.get(rank, 0)))).split
    assert set(split.last.tolist()) == {3}
    assert np.median(split.cost) / US == pytest.approx(50.0, abs=10)


def test_a_clock_takes_five_shared_collectives() -> None:
    whole = make(Program(ranks=2))
    numbers = pl.int_range(100, 160).alias("sequence")
    numbered = [replace(r, calls=r.calls.with_columns(numbers)) for r in whole.ranks]

    def method(shared: int) -> str:
        run = without(replace(whole, ranks=tuple(numbered)), 1, range(60 - shared))
        return align(run, match(run))[0].method

    assert method(5) == "collectives"
    assert method(4) == "durations"


def test_a_step_before_one_that_is_missing_ends_with_its_own_work() -> None:
    steps = pl.DataFrame(
        {"step": [1, 2, 4], "start_ns": [0, 10, 40], "end_ns": [8, 18, 48]},
        schema={"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    assert step_lengths(steps) == {1: 10, 2: 8, 4: 8}


@pytest.mark.parametrize("order", [1, -1])
def test_what_kernels_take_longer_does_not_depend_on_their_order(order: int) -> None:
    """Rank 0 takes 1e16 ns longer in one kernel, less in another, 1 ns longer in 98 others."""
    names = [f"kernel{number}" for number in range(100)]
    longer = [10**16, *[1] * 98, 0]
    usual = [0, *[0] * 98, 10**16]

    def work(times: list[int]) -> pl.DataFrame:
        columns = {"step": 1, "name": names, "category": "gemm", "work": "", "calls": 1}
        known = {name: columns.get(name, [None] * len(times)) for name in WORK_SCHEMA}
        return pl.DataFrame(known | {"total_ns": times}, schema=WORK_SCHEMA)[::order]

    run = make(Program(ranks=2, jitter=0))
    ranks = [replace(r, work=work(t)) for r, t in zip(run.ranks, (longer, usual), strict=True)]
    slower, _ = _kernels(replace(run, ranks=tuple(ranks)), 0, [{1}, {1}])
    assert slower == 98 / 1e6


def shared_out(idle: int, held: int, busy: int) -> Run:
    """Rank 2 is 300 µs late in every collective, for these reasons."""
    run = make(Program(jitter=0, late=lambda rank, *_: 300 * US if rank == 2 else 0))
    moved = [
        pl.col("idle_ns") - (300 - idle) * US,
        pl.col("held_ns") + held * US,
        pl.col("busy_ns") + busy * US,
    ]
    return replace(
        run,
        ranks=tuple(
            replace(r, calls=r.calls.with_columns(moved)) if r.rank == 2 else r for r in run.ranks
        ),
    )


def test_a_reason_is_named_only_when_it_explains_enough() -> None:
    assert rank_table(shared_out(150, 75, 75)).straggler.why == "host"
    mixed = rank_table(shared_out(100, 100, 100)).straggler
    assert mixed.rank == 2
    assert mixed.why == "unknown"


@pytest.mark.parametrize(("factor", "why"), [(1.11, "load"), (1.09, "link")])
def test_leaving_late_is_the_load_of_a_rank_that_has_more(factor: float, why: str) -> None:
    run = make(Program(jitter=0))
    analysis = analyze(run)
    late = np.zeros_like(analysis.split.wait)
    late[:, 2] = MS
    zero = np.zeros_like(late)
    parts = {"late": late, "busy": zero, "held": zero, "idle": zero}
    every = np.ones(late.shape[0], bool)
    steps = [set(range(10)) for _ in run.ranks]
    work = {"tokens": Work(factor, 1.0)}
    found = explain(run, replace(analysis.split, parts=parts), 2, every, steps, work)
    assert found.why == why


def test_the_baseline_of_a_transfer_is_that_of_calls_in_which_nobody_waited() -> None:
    table = pl.DataFrame({"kind": ["all_reduce"] * 10, "group": ["0,1"] * 10, "bytes": [64] * 10})
    wait = np.repeat([[5.0], [100.0]], [4, 6], axis=0) * np.ones((1, 2))
    transfer = np.repeat([[95.0], [200.0]], [4, 6], axis=0) * np.ones((1, 2))
    found = _baseline(table, wait, wait + transfer, transfer)
    assert set(found.tolist()) == {95.0}
