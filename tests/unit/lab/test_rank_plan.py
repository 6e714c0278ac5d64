from __future__ import annotations

import pytest

from solscope.lab.ranks.faults import batch_of
from solscope.lab.ranks.plan import WHY, WORLD, scenarios
from solscope.lab.ranks.record import Shared


@pytest.mark.parametrize("half", ["tune", "test"])
def test_every_fault_is_recorded_in_two_strengths_beside_controls(half: str) -> None:
    planned = scenarios(half)
    assert len({scenario.name for scenario in planned}) == len(planned)
    for fault in WHY:
        assert {s.strength for s in planned if s.fault == fault} == {1, 2}
    controls = [s for s in planned if s.truth()["control"]]
    assert {s.parallelism for s in controls} == {"tp", "ep", "pp"}
    assert all(s.rank is None or 0 <= s.rank < WORLD for s in planned)


def test_the_halves_put_a_fault_at_different_ranks() -> None:
    pairs = zip(scenarios("tune"), scenarios("test"), strict=True)
    moved = [(tune.rank, test.rank) for tune, test in pairs if tune.rank is not None]
    assert moved
    assert all(first != second for first, second in moved)


def test_nobody_is_to_blame_for_a_slow_link_or_a_straggler_that_wanders() -> None:
    truths = {s.fault: s.truth() for s in scenarios("tune")}
    assert truths["slow_link"]["culprit"] is None
    assert truths["wandering"]["culprit"] is None
    assert truths["slow_gpu"]["culprit"] is not None
    assert truths["late_joiner"]["control"]


def test_more_requests_are_on_the_rank_at_fault_alone() -> None:
    uneven = next(s for s in scenarios("tune") if s.fault == "tokens")
    batches = [batch_of(uneven, rank) for rank in range(WORLD)]
    assert [batch > uneven.batch for batch in batches] == [r == uneven.rank for r in range(WORLD)]


def test_the_fresh_half_records_controls_before_what_is_compared_with_them() -> None:
    planned = scenarios("fresh")
    assert len({scenario.name for scenario in planned}) == len(planned)
    assert {s.fault for s in planned} == {*WHY, None}
    seen = set()
    for scenario in planned:
        kind = scenario.parallelism, scenario.batch, scenario.graph
        if scenario.fault is None:
            seen.add(kind)
        assert kind in seen
        assert (scenario.how is not None) == (scenario.fault == "slow_gpu")
    contexts = {(s.parallelism, s.batch, s.graph): s.context for s in planned}
    assert all(s.context == contexts[s.parallelism, s.batch, s.graph] for s in planned)
    assert {s.seed for s in planned}.isdisjoint(s.seed for s in scenarios("test"))


def test_multiprocessors_are_held_as_the_machine_allows() -> None:
    strong, weak = (
        next(s for s in scenarios("fresh") if s.how == "held" and s.strength == strength)
        for strength in (2, 1)
    )
    gpu = Shared("cuda", [20, 14])
    assert (gpu.possible(strong).held, gpu.possible(weak).held) == (20, 14)
    gpu.refuse(20)
    assert gpu.possible(strong).held == 14
    gpu.refuse(14)
    assert gpu.possible(strong).how == "share"
    percent = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    shares = [gpu.environment(gpu.possible(strong), r, 1)[percent] for r in range(WORLD)]
    assert [int(share) < 25 for share in shares] == [r == strong.rank for r in range(WORLD)]
