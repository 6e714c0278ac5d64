"""Whether a solution remembers results: calls on new values against calls on values seen before.

A busy machine delays calls, but it does not know which of them are the first on their values. So
of an honest solution first and later calls change places freely, however noisy the clock is, and
how many later calls are as slow as the first has a known distribution. Trials on new values go on
until the odds against it are overwhelming, or in favor of it. Where neither comes true nothing is
known about the solution, and it does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from solscope.bench.base import SETS
from solscope.bench.pool.inputs import drawn_seed
from solscope.bench.run.timing import Trial, bind, restore_all

FirstAndLater = Callable[[], tuple[list[float], list[float]]]
"""Times the first calls on new values and later calls on the same ones, in microseconds."""

MIN_SPEEDUP = 2.0
"""A call on values seen before that is more than this many times faster was not computed.

The first call on new values also finds cold caches, which is worth less than that. Example: 200 us
on new values, then 90 us on the same ones, again and again, is a remembered result."""
MAX_FALSE_ALARMS = 0.001
"""Share of honest solutions under suspicion that may be called a cheat, at most."""
MAX_MISSED = 0.01
"""Suspicion ends when the odds are below this."""
SPREAD = 0.35
"""A remembered call is delayed as much as computing takes with about this probability."""
MINORITY = 0.95
"""In this share of trials, less than half of the remembered calls are slow: the score is a median.
"""
MAX_TRIALS = 24
"""Trials until the machine is called too busy to tell."""

REASON = "much faster on values it has seen than on new ones: it remembers results"
UNDECIDED = "the machine is too busy to tell whether it remembers results: run it again"


def is_suspicious(first: Sequence[float], later: Sequence[float], least_us: float) -> bool:
    """Whether any call on values seen before was so fast that it may not have computed."""
    return slow_calls(first, later, least_us) < len(later)


def slow_calls(first: Sequence[float], later: Sequence[float], least_us: float) -> int:
    """How many later calls took so long that they may have computed what the first ones did.

    Differences below `least_us` prove nothing. Example: the fastest of the first calls takes 300 us
    and `least_us` is 50: later calls of 150 us or more count.
    """
    fastest = min(first)
    computing = min(fastest / MIN_SPEEDUP, fastest - least_us)
    return sum(time_us >= computing for time_us in later)


@cache
def likelihood_ratios(slow: int, first: int, later: int) -> tuple[float, float]:
    """How much more likely `slow` of the later calls are for two ways to remember than by chance.

    By chance every order of `first` and `later` calls is as likely as any other. One way remembers
    every result and is rarely disturbed, the other makes some later calls slow on purpose.
    """
    chances = [math.comb(k + first - 1, first - 1) for k in range(later + 1)]
    everything = math.comb(later + first, first)
    always = SPREAD**slow * (1 - SPREAD) / (1 - SPREAD ** (later + 1))
    few = sum(chances[: (later + 1) // 2]) / everything
    mostly = MINORITY / few if slow < (later + 1) // 2 else (1 - MINORITY) / (1 - few)
    return always / (chances[slow] / everything), mostly


@dataclass
class Odds:
    """Odds that a solution remembers results, from trials that each were on new values.

    They are the mean of two products of likelihood ratios. For an honest solution their expectation
    never exceeds 1, so they reach 1,000 in at most one of 1,000 tests, whenever these are stopped
    (Ville's inequality).
    """

    least_us: float
    always: float = 1.0
    mostly: float = 1.0

    def add(self, first: Sequence[float], later: Sequence[float]) -> None:
        """Take another trial into account."""
        slow = slow_calls(first, later, self.least_us)
        always, mostly = likelihood_ratios(slow, len(first), len(later))
        self.always *= always
        self.mostly *= mostly

    @property
    def remembers(self) -> bool | None:
        """Whether it does; null as long as nobody can say."""
        odds = (self.always + self.mostly) / 2
        if odds >= 1 / MAX_FALSE_ALARMS:
            return True
        return False if odds <= MAX_MISSED else None


def judge_memory(trial: Trial, first_and_later: FirstAndLater, least_us: float) -> None:
    """Fail a solution under suspicion that remembers results, and one of which nobody can say."""
    slot, sets, verdict = trial.slot, trial.sets, trial.measured.verdict
    odds = Odds(least_us)
    for _ in range(MAX_TRIALS):
        seeds = [drawn_seed() for _ in range(SETS)]

        def write(seeds: list[int] = seeds) -> None:
            for index, seed in enumerate(seeds):
                sets.redraw(index, seed)

        bind(slot, sets, write)
        odds.add(*first_and_later())
        if odds.remembers is not None:
            break
    bind(slot, sets, lambda: restore_all(sets))
    if odds.remembers is None:
        verdict.fail("unsupported", UNDECIDED)
    elif odds.remembers:
        verdict.fail("cheating", REASON)
