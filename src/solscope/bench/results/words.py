"""A score in words: how close to the limit, where the most is left, and what the figures are of."""

from __future__ import annotations

from solscope.bench.results.score import OperatorScore, Score
from solscope.bench.workloads import DEFAULT_SUITE
from solscope.suite.files import RECORDED, load
from solscope.text import as_percent, capitalized, in_words


def time_of(suite: str) -> str:
    """What importance, and time above the bound, are shares of."""
    return "GPU time of production profiles" if suite == DEFAULT_SUITE else "time of the suite"


def sentence(score: Score) -> str | None:
    """The answer in one sentence; null without any S."""
    if score.weighted_s is None:
        return None
    who = "The fastest correct solutions reach"
    if len(score.solutions) == 1:
        who = f"{score.solutions[0]} reaches"
    reached = as_percent(score.weighted_s, 1)
    alone = f" for {in_words(score.only)} alone" if score.only else ""
    said = (
        f"{who} {reached} of the speed that {score.device} allows{alone} (S: least possible time / "
        "measured time)"
    )
    if has_gaps(score):
        missing = as_percent(1 - score.covered, 1)
        time = "their time" if len(score.only) > 1 else "its time" if score.only else "the time"
        said += f", with 0 for the {missing} of {time} that did not pass or was not run"
        if score.s_covered is not None:
            said += f" (S of the rest: {as_percent(score.s_covered, 1)})"
    most = most_recoverable(score)
    if most is None:
        return f"{said}."
    share = as_percent(most.recoverable or 0.0, 1)
    time = time_of(score.suite)
    return f"{said}; {most.operator} takes most time above its bound: {share} of the {time}."


def has_gaps(score: Score) -> bool:
    """Whether some of the time has no solution that passed: a share that can be seen."""
    return 1 - score.covered >= 0.0005


def legend(score: Score) -> str:
    """What S, the bound and shares are, for those who see them for the first time."""
    whole = "all its calls, by their weights"
    if score.suite == DEFAULT_SUITE:
        whole = (
            "the calls of the suite, as often as recordings of servers in production have them"
            f"{_not_recorded(score.suite)}"
        )
    return (
        "S: bound / measured time; 100 % is the limit of the hardware. Bound: the least time that "
        f"the rates of the GPU allow for a call. {capitalized(time_of(score.suite))}: {whole}. "
        "Above the bound: what calls take beyond it, the most that faster kernels can save."
        f"{_of_these(score)}"
    )


def _not_recorded(suite: str) -> str:
    """How many shapes have calls that no recording has, and how often those count."""
    shapes = [shape for listed in load(suite).operators for shape in listed.shapes]
    without = sum(shape.provenance.get("calls_from") != RECORDED for shape in shapes)
    if not without:
        return ""
    return (
        f"; {without} of its {len(shapes)} shapes have no recorded calls and count as often as the "
        "median of their operator, or once where there is none"
    )


def _of_these(score: Score) -> str:
    """What a score of some operators is not."""
    if not score.only:
        return ""
    names = in_words(score.only)
    return f" S over all is that of {names} alone, by importance, and says nothing of the suite."


def most_recoverable(score: Score) -> OperatorScore | None:
    """The operator with the most time above its bound.

    Null where no bound is known, and where there is one operator alone: that is no choice.
    """
    if len(score.operators) == 1:
        return None
    known = [scored for scored in score.operators if scored.recoverable is not None]
    return max(known, key=lambda scored: scored.recoverable or 0.0, default=None)


def advice(score: Score) -> str | None:
    """Where to work first; null where that is not known, or there is no choice."""
    most = most_recoverable(score)
    if most is None or most.s is None:
        return None
    suite = "" if score.suite == DEFAULT_SUITE else f" --suite {score.suite}"
    return (
        f"Work on {most.operator} first: it has {as_percent(most.importance, 1)} of "
        f"the {time_of(score.suite)}, and S is {as_percent(most.s, 1)} there. `solscope bench new "
        f"{most.operator}` begins a kernel of your own, and `solscope bench tune {most.operator}"
        f"{suite}` times it."
    )
