"""Remembered results are recognized by the order of times, at any speed and load."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

pytest.importorskip("torch")

from solscope.bench.base import SETS
from solscope.bench.run import remembered
from solscope.bench.run.check import Verdict
from solscope.bench.run.remembered import (
    MAX_FALSE_ALARMS,
    MAX_TRIALS,
    REASON,
    UNDECIDED,
    Odds,
    is_suspicious,
    judge_memory,
    likelihood_ratios,
    slow_calls,
)

Times = Callable[[], tuple[list[float], list[float]]]


def judged(times: Times) -> tuple[bool | None, int]:
    """Whether such a solution remembers, and after how many trials that is known."""
    odds = Odds(50.0)
    for trial in range(1, MAX_TRIALS + 1):
        odds.add(*times())
        if odds.remembers is not None:
            return odds.remembers, trial
    return None, MAX_TRIALS


def test_a_first_call_twice_as_slow_is_not_yet_suspicious() -> None:
    assert not is_suspicious([200.0], [100.0] * 9, 50.0)
    assert is_suspicious([200.1], [100.0] * 9, 50.0)
    assert not is_suspicious([99.0], [49.0] * 9, 50.0), "50 us more prove nothing"
    assert is_suspicious([99.1], [49.0] * 9, 50.0)
    assert not is_suspicious([8.0, 9.0, 8.0], [3.0, 3.0, 3.0], 50.0)


def test_one_fast_call_among_delayed_ones_is_suspicious() -> None:
    """Three samples of a busy CPU: only one shows that nothing was computed."""
    assert is_suspicious([116_000.0], [118_000.0, 221.0], 1000.0)
    assert slow_calls([116_000.0], [118_000.0, 221.0, 58_000.0], 1000.0) == 2


@pytest.mark.parametrize(("first", "later"), [(1, 19), (1, 5), (3, 6)])
def test_ratios_have_a_mean_of_1_for_honest_solutions_and_fall(first: int, later: int) -> None:
    """Every order of the calls is equally likely then: counted, not computed by formula."""
    random.seed(first)
    counts = [0] * (later + 1)
    for _ in range(4_000):
        order = random.sample(range(first + later), first + later)
        fastest = min(order[:first])
        counts[sum(one > fastest for one in order[first:])] += 1
    ratios = [likelihood_ratios(slow, first, later) for slow in range(later + 1)]
    for kind in zip(*ratios, strict=True):
        mean = sum(one * n for one, n in zip(kind, counts, strict=True)) / 4_000
        assert mean == pytest.approx(1, abs=0.25)
        assert list(kind) == sorted(kind, reverse=True), "a slower honest first call is no evidence"


def test_a_quiet_machine_decides_in_three_trials() -> None:
    assert judged(lambda: ([900.0], [10.0] * 19)) == (True, 3)
    assert judged(lambda: ([900.0] * 3, [10.0] * 6)) == (True, 2)
    assert judged(lambda: ([100.0], [99.0] * 19)) == (False, 2)


def busy(random_: random.Random, call_us: float) -> float:
    """A call on a machine that delays two calls in five, by up to 3 ms."""
    return call_us + (random_.uniform(0, 3000.0) if random_.random() < 0.4 else 0.0)


def test_a_busy_machine_clears_no_cheat() -> None:
    random_ = random.Random(7)

    def times() -> tuple[list[float], list[float]]:
        return [busy(random_, 1000.0)], [busy(random_, 5.0) for _ in range(19)]

    found = [judged(times)[0] for _ in range(300)]
    assert found.count(False) <= 3
    assert found.count(True) >= 255


def test_slow_calls_on_purpose_do_not_clear_a_cheat() -> None:
    """One in five later calls computes: the median, which is the score, remembers."""
    random_ = random.Random(8)

    def times() -> tuple[list[float], list[float]]:
        return [1000.0], [1000.0 if random_.random() < 0.2 else 5.0 for _ in range(19)]

    assert {judged(times)[0] for _ in range(100)} == {True}


@pytest.mark.parametrize(("first", "later"), [(1, 19), (1, 5), (3, 6)])
def test_a_busy_machine_makes_no_cheat_of_an_honest_solution(first: int, later: int) -> None:
    """First calls find cold caches besides: they take twice as long as others."""
    random_ = random.Random(9)

    def times() -> tuple[list[float], list[float]]:
        cold = [2 * busy(random_, 100.0) for _ in range(first)]
        return cold, [busy(random_, 100.0) for _ in range(later)]

    found = [judged(times)[0] for _ in range(1000)]
    assert found.count(True) <= 3 * MAX_FALSE_ALARMS * 1000
    assert found.count(False) >= 990


@pytest.mark.parametrize(
    ("ratios", "status", "reason", "trials"),
    [
        ((13.0, 1.9), "cheating", REASON, 3),
        ((0.0, 0.1), "passed", None, 2),
        ((1.0, 1.0), "unsupported", UNDECIDED, MAX_TRIALS),
    ],
)
def test_what_cannot_be_decided_does_not_pass(
    ratios: tuple[float, float],
    status: str,
    reason: str | None,
    trials: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remembered, "likelihood_ratios", lambda *_: ratios)
    slot, sets, verdict = MagicMock(shown=()), Mock(specs=[]), Verdict()
    slot.candidate.task.mutates = ()
    trial: Any = SimpleNamespace(slot=slot, sets=sets, measured=SimpleNamespace(verdict=verdict))
    times = Mock(return_value=([900.0], [10.0] * 19))
    judge_memory(trial, times, 50.0)
    assert (verdict.status, verdict.reason) == (status, reason)
    assert times.call_count == trials
    assert sets.restore.call_count >= SETS, "what follows is on the values from before"
