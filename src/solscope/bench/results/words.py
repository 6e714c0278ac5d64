"""A score in words: how close to the limit, where the most is left, and what the figures are of."""

from __future__ import annotations

from solscope.bench.results.score import OperatorScore, Score
from solscope.bench.workloads import DEFAULT_SUITE
from solscope.text import as_percent


def time_of(suite: str) -> str:
    """What importance and recoverable time are shares of."""
    return "production's GPU time" if suite == DEFAULT_SUITE else "the time of the suite"


def sentence(score: Score) -> str | None:
    """The answer in one sentence; null without any S."""
    if score.weighted_s is None:
        return None
    who = "The fastest correct solutions reach"
    if len(score.solutions) == 1:
        who = f"{score.solutions[0]} reaches"
    said = f"{who} {as_percent(score.weighted_s, 1)} of the speed that {score.device} allows (S)"
    if has_gaps(score):
        missing = as_percent(1 - score.covered, 1)
        said += f", with 0 for the {missing} of the time that did not pass or was not run"
    most = most_recoverable(score)
    if most is None:
        return f"{said}."
    share = as_percent(most.recoverable or 0.0, 1)
    return f"{said}; {most.operator} has the most to recover, {share} of {time_of(score.suite)}."


def has_gaps(score: Score) -> bool:
    """Whether some of the time has no solution that passed: a share that can be seen."""
    return 1 - score.covered >= 0.0005


def legend(score: Score) -> str:
    """What S, the bound and shares are, for those who see them for the first time."""
    time = time_of(score.suite)
    whole = "all calls of the suite, by its weights"
    return (
        "S: bound / measured time; 100 % is the limit of the hardware. Bound: the least time that "
        f"the rates of the GPU allow for a call. {time[0].upper()}{time[1:]}: {whole}. "
        "Recoverable: what would be saved if every call took no longer than its bound."
    )


def most_recoverable(score: Score) -> OperatorScore | None:
    """The operator with the most time above its bound; null where no bound is known."""
    known = [scored for scored in score.operators if scored.recoverable is not None]
    return max(known, key=lambda scored: scored.recoverable or 0.0, default=None)


def advice(score: Score) -> str | None:
    """Where to work first; null where no bound is known."""
    most = most_recoverable(score)
    if most is None or most.s is None:
        return None
    suite = "" if score.suite == DEFAULT_SUITE else f" --suite {score.suite}"
    return (
        f"Work on {most.operator} first: it has {as_percent(most.importance, 1)} of "
        f"{time_of(score.suite)}, and S is {as_percent(most.s, 1)} there. `solscope bench new "
        f"{most.operator}` begins a kernel of your own, and `solscope bench tune {most.operator}"
        f"{suite}` times it."
    )
