"""Waiting, stragglers and reasons, in runs whose truth is known."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from solscope.ranks.analysis import analyze
from solscope.ranks.straggler import ALONE, HEALTHY, MATERIAL, Charge, find_suspect
from solscope.views.ranks import rank_table
from tests.ranks_making import MS, US, Program, make, without


def test_transfer_and_waiting_add_up_to_the_duration() -> None:
    analysis = analyze(make(Program(late=lambda rank, *_: 300 * US if rank == 3 else 0)))
    whole = analysis.times.end - analysis.times.start
    assert np.allclose(analysis.split.wait + analysis.split.transfer, whole)
    waited = np.nanmean(analysis.split.wait, axis=0) / US
    assert waited[3] < 10
    assert waited[:3] == pytest.approx([300, 300, 300], abs=25)


def test_noise_names_nobody() -> None:
    result = rank_table(make(Program(jitter=80 * US)))
    assert result.straggler.rank is None
    assert result.straggler.confidence < 0.8
    assert "No rank stands out" in result.verdict


@pytest.mark.parametrize(("part", "why"), [("idle", "host"), ("held", "gpu")])
def test_a_rank_that_is_always_late_is_named_with_its_reason(part: str, why: str) -> None:
    run = make(Program(late=lambda rank, *_: 200 * US if rank == 2 else 0, late_as=part))
    straggler = rank_table(run).straggler
    assert straggler.rank == 2
    # Nine steps agree, so the next one does with a chance of 10 / 11.
    assert straggler.confidence == 0.909
    assert straggler.why == why
    assert straggler.pattern == "persistent"
    assert straggler.step_share_pct == pytest.approx(100 * 190 / 400, abs=6)


@pytest.mark.parametrize(
    ("steps", "most"),
    [(10, "91 % is the most that 9 steps allow."), (40, "95 % is the most that the lab's runs")],
)
def test_a_verdict_has_the_times_that_its_share_is_the_ratio_of(steps: int, most: str) -> None:
    late = Program(steps=steps, late=lambda rank, *_: 200 * US if rank == 2 else 0, late_as="held")
    result = rank_table(make(late))
    cost, share = result.ranks[2].cost_ms, result.straggler.step_share_pct
    assert result.step_ms is not None
    assert result.verdict.startswith(
        f"The others wait for rank 2: {cost:.2f} of {result.step_ms:.2f} ms per step ({share:.1f} %"
    )
    assert result.legend is not None
    assert result.legend.startswith(f"Means over the {steps - 1} steps that the ranks recorded")
    assert most in result.legend
    assert f"({100 * result.straggler.confidence:.0f} % confident)" in result.verdict


def test_a_rank_that_is_late_in_some_steps_only_is_named() -> None:
    run = make(
        Program(steps=17, late=lambda rank, step, _: 900 * US * (rank == 1 and step % 4 == 2))
    )
    straggler = rank_table(run).straggler
    assert straggler.rank == 1
    assert straggler.steps == [2, 6, 10, 14]


def test_the_first_step_does_not_count() -> None:
    run = make(Program(late=lambda rank, step, _: 40 * MS * (rank == 3 and step == 0)))
    straggler = rank_table(run).straggler
    assert straggler.rank is None
    assert 0 not in analyze(run).steps


def test_the_first_step_of_a_rank_that_joined_late_does_not_count() -> None:
    whole = make(Program(late=lambda rank, step, _: 40 * MS * (rank == 3 and step == 4)))
    rank = whole.ranks[3]
    steps = rank.steps.filter(rank.steps["step"] >= 4)
    run = without(
        replace(whole, ranks=(*whole.ranks[:3], replace(rank, steps=steps))), 3, range(24)
    )
    analysis = analyze(run)
    assert analysis.steps.tolist() == [5, 6, 7, 8, 9]
    assert analysis.suspect.rank is None


def test_a_straggler_that_wanders_is_no_rank() -> None:
    run = make(Program(steps=17, late=lambda rank, step, _: 200 * US * (rank == step % 4)))
    result = rank_table(run)
    assert result.straggler.rank is None
    assert result.straggler.pattern == "wandering"
    assert "another rank" in result.verdict


def test_copies_of_one_trace_have_no_straggler() -> None:
    run = make(Program(late=lambda rank, *_: 200 * US if rank == 2 else 0))
    first = run.ranks[0]
    copies = tuple(replace(first, rank=n, path=f"rank{n}.json") for n in range(3))
    straggler = rank_table(replace(run, ranks=copies)).straggler
    assert straggler.rank is None
    assert straggler.confidence == 0.0


def test_longer_collectives_without_later_arrivals_are_no_straggler() -> None:
    """Durations edited in a copy: ends no longer lie together, and starts are the same."""
    run = make(Program())
    first = run.ranks[0]
    longer = first.calls.with_columns(end_ns=first.calls["end_ns"] + 20 * US)
    copies = (first, replace(first, rank=1, path="rank1.json", calls=longer))
    assert rank_table(replace(run, ranks=copies)).straggler.rank is None


def test_a_rank_that_is_missing_is_said_in_one_line() -> None:
    run = make(Program())
    named = [
        replace(r, calls=r.calls.with_columns(pl.lit("0,1,2,3,4,5").alias("group")))
        for r in run.ranks
    ]
    result = rank_table(replace(run, world_size=128, ranks=tuple(named)))
    assert result.missing == list(range(4, 128))
    assert all(row.kind_class in ("inconclusive", "arrival") for row in result.collectives)


def test_without_a_clock_nobody_is_last_to_a_send() -> None:
    run = make(Program(ranks=2, kind="send"))
    both = [
        replace(
            r,
            calls=r.calls.with_columns(
                pl.lit("send" if r.rank == 0 else "receive").alias("kind"),
                pl.lit(1 - r.rank, pl.Int64).alias("peer"),
            ),
        )
        for r in run.ranks
    ]
    analysis = analyze(replace(run, ranks=tuple(both)))
    assert analysis.clock.method == "durations"
    assert set(analysis.split.last.tolist()) == {-1}
    assert not analysis.charge.cost.any()
    assert [row.last for row in rank_table(analysis).ranks] == [0, 0]


def charge(costs: list[list[float]]) -> Charge:
    return Charge(np.arange(len(costs)), np.array(costs), np.full(len(costs), 1.0))


def test_a_rank_is_named_from_the_material_share_on() -> None:
    def suspect(share: float) -> int | None:
        return find_suspect(charge([[share, 0.0]] * 8), (0, 1), "gpu").rank

    assert suspect(MATERIAL + 0.001) == 0
    assert suspect(MATERIAL - 0.001) is None


def test_a_rank_is_named_from_its_share_of_all_lateness_on() -> None:
    def suspect(share: float) -> int | None:
        return find_suspect(charge([[share, 1.0 - share]] * 8), (0, 1), "gpu").rank

    assert suspect(ALONE + 0.001) == 0
    assert suspect(ALONE - 0.001) is None


def test_a_late_host_is_named_only_beyond_what_healthy_hosts_cost() -> None:
    def suspect(share: float, why: str | None) -> int | None:
        return find_suspect(charge([[share, 0.0]] * 8), (0, 1), why).rank

    usual = HEALTHY["host"] - 0.01
    assert suspect(usual, "gpu") == 0
    assert suspect(usual, "host") is None
    assert suspect(usual, "unknown") is None
    assert suspect(HEALTHY["host"] + 0.01, "host") == 0


def test_the_verdict_says_why_a_late_host_is_not_named() -> None:
    run = make(Program(late=lambda rank, *_: 60 * US if rank == 2 else 0, late_as="idle"))
    result = rank_table(run)
    assert result.straggler.rank is None
    assert 100 * MATERIAL < (result.straggler.step_share_pct or 0.0) < 100 * HEALTHY["host"]
    assert result.verdict.startswith("No rank stands out: rank 2 costs the others most")
    assert result.verdict.endswith("; hosts of healthy ranks can be as late as this.")


@pytest.mark.parametrize(("steps", "confidence"), [(3, 0.8), (8, 0.9), (500, 0.947)])
def test_a_confidence_is_capped_by_steps_and_by_recordings(steps: int, confidence: float) -> None:
    suspect = find_suspect(charge([[1.0, 0.0]] * steps), (0, 1), "gpu")
    assert (suspect.rank, suspect.confidence) == (0, confidence)


def test_too_few_steps_give_a_reason() -> None:
    suspect = find_suspect(charge([[1.0, 0.0]] * 2), (0, 1), "gpu")
    assert suspect.rank is None
    assert suspect.reason == "only 2 whole steps after the first"


def test_memory_does_not_grow_with_draws_times_steps_times_ranks() -> None:
    """2,000 draws of 1,000 steps of 64 ranks: 1 GB when every drawn step is laid out."""
    cost = np.ones((1000, 64))
    cost[:, 5] = 200.0
    charge = Charge(np.arange(1000), cost, np.full(1000, 300.0))
    tracemalloc.start()
    try:
        suspect = find_suspect(charge, tuple(range(64)), "gpu")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (suspect.rank, suspect.confidence) == (5, 0.947)
    assert peak < 100 << 20


def test_without_a_collective_in_common_nobody_is_said_to_wait_for_nobody() -> None:
    run = make(Program())
    alone = [replace(rank, calls=rank.calls.clear()) for rank in run.ranks[1:]]
    table = rank_table(replace(run, ranks=(run.ranks[0], *alone)))
    assert table.straggler.leader is None
    assert table.verdict == (
        "Cannot tell who waits for whom: no collective could be compared between ranks."
    )
    assert {rank.cost_ms for rank in table.ranks} == {None}
