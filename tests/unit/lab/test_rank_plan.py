from __future__ import annotations

import pytest

from solscope.lab.ranks.faults import batch_of
from solscope.lab.ranks.plan import WHY, WORLD, scenarios


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
