"""Which rank made a run slower: runs whose truth is known."""

from __future__ import annotations

import msgspec
import pytest

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.slow_rank import RankCause, blame
from solscope.ranks.analysis import analyze
from solscope.report.results.diagnose.diagnosis import rank_lines
from tests.ranks_making import US, Program, make
from tests.unit.diagnose.making import EAGER


def blamed(normal: Program, abnormal: Program) -> RankCause:
    return blame(analyze(make(normal)), analyze(make(abnormal)))


def test_the_rank_that_became_late_is_the_culprit() -> None:
    slow = Program(seed=2, late=lambda rank, *_: 200 * US if rank == 2 else 0, late_as="held")
    cause = blamed(Program(), slow)
    assert cause.culprit == 2
    assert cause.confidence == 0.909
    assert cause.why == "gpu"
    assert cause.step_ratio is not None
    assert cause.step_ratio > 1.5


def test_a_rank_that_was_late_before_is_not_blamed_for_another() -> None:
    late = Program(late=lambda rank, *_: 150 * US if rank == 1 else 0)
    both = Program(
        seed=2, late=lambda rank, *_: (150 if rank == 1 else 500 if rank == 3 else 0) * US
    )
    assert blamed(late, both).culprit == 3
    assert blamed(late, late).culprit is None


def test_longer_transfers_of_the_same_messages_are_the_link() -> None:
    cause = blamed(Program(), Program(seed=2, transfer=300 * US))
    assert cause.culprit is None
    assert cause.why == "link"


def test_a_straggler_that_wanders_is_nobody() -> None:
    slow = Program(seed=2, steps=17, late=lambda rank, step, _: 200 * US * (rank == step % 4))
    cause = blamed(Program(steps=17), slow)
    assert cause.culprit is None
    assert cause.why == "host"


def test_a_host_that_became_as_late_as_healthy_ones_can_be_is_not_blamed() -> None:
    def late(part: str) -> RankCause:
        slow = Program(seed=2, late=lambda rank, *_: 60 * US if rank == 2 else 0, late_as=part)
        return blamed(Program(), slow)

    assert late("held").culprit == 2
    assert late("idle").culprit is None


def test_too_few_steps_blame_nobody() -> None:
    cause = blamed(Program(steps=3), Program(steps=3, seed=2))
    assert cause.culprit is None
    assert cause.confidence == 0.0


@pytest.mark.parametrize(
    ("culprit", "why", "said"),
    [
        (2, "gpu", "Rank 2 makes the others wait, because of its GPU (91 % confident)."),
        (2, "unknown", "Rank 2 makes the others wait, because of a reason that is not known"),
        (None, "link", "No single rank explains that. The likely reason is the link."),
        (None, "unknown", "No single rank explains that."),
    ],
)
def test_the_reason_is_said_in_words(culprit: int | None, why: str, said: str) -> None:
    result = diagnose_runs(EAGER.run(), EAGER.run(3))
    cause = RankCause(culprit, 0.91, why, None, None, [])
    assert rank_lines(msgspec.structs.replace(result, ranks=cause))[0].startswith(said)
