"""How well `ranks` and `diagnose` find the rank at fault, beside baselines, on runs of the lab.

A fault counts as slow when the mean step of its run is `SLOW` times that of the normal runs of its
kind (parallelism, batch, graphs). Baselines always name a rank:

* least wait: the rank with the smallest sum of waiting, the start of the recording included;
* longest compute: the rank whose GPU computes longest;
* latest start: the rank whose collectives begin latest by the recorded clocks, in the mean, which
  is what HTA's list of potential stragglers ranks by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from solscope.diagnose.slow_rank import blame
from solscope.lab.score import SLOW, Rate, wilson
from solscope.ranks.analysis import Analysis
from solscope.ranks.skew import collective_skew
from solscope.ranks.straggler import Charge, Suspect, find_suspect

RESAMPLED = 300
"""Control runs that are drawn from the steps of each recorded one."""


class Truth(msgspec.Struct, frozen=True):
    """What was done to a run, as the lab wrote it."""

    name: str
    parallelism: str
    fault: str | None
    strength: int
    batch: int
    graph: bool
    culprit: int | None
    why: str | None
    control: bool
    how: str | None = None
    """What made a shared GPU slower for one rank (`lab.ranks.plan`)."""

    @property
    def kind(self) -> tuple[str, int, bool]:
        """What a run must have in common with the normal run that it is compared with."""
        return self.parallelism, self.batch, self.graph


@dataclass(frozen=True)
class Recorded:
    """One run of the lab, analyzed."""

    truth: Truth
    analysis: Analysis

    @property
    def step_ns(self) -> float:
        """Mean step of the run."""
        length = self.analysis.charge.length
        return float(length.mean()) if length.size else float("nan")


class Answer(msgspec.Struct, frozen=True):
    """What one method says of one run."""

    rank: int | None
    why: str | None


class RunScore(msgspec.Struct, frozen=True):
    """One run with everybody's answer."""

    truth: Truth
    ratio: float | None
    """Mean step over that of the normal runs of its kind; null for those."""
    confidence: float
    answers: dict[str, Answer]


class MethodScore(msgspec.Struct, frozen=True):
    """One method on one half."""

    method: str
    rank: Rate
    """Right rank among runs with a culprit whose step is slow."""
    why: Rate
    """Right reason among them; nothing to count for methods without one."""
    alarms: Rate
    """A rank named in controls."""
    wrong: Rate
    """A rank named where none is to blame: slow links, stragglers that wander."""


def answers_of(run: Recorded, normal: Recorded | None) -> dict[str, Answer]:
    """What each method says of a run."""
    analysis = run.analysis
    suspect, why = analysis.suspect, analysis.why
    named = None if why is None or suspect.rank is None else why.why
    answers = {"ranks": Answer(suspect.rank, named)}
    if normal is not None and normal is not run:
        cause = blame(normal.analysis, analysis)
        answers["diagnose"] = Answer(cause.culprit, cause.why)
    answers |= {name: Answer(rule(analysis), None) for name, rule in BASELINES.items()}
    return answers


def _least_wait(analysis: Analysis) -> int | None:
    ranks = {
        rank.rank: rank.calls.select(
            "name", (rank.calls["end_ns"] - rank.calls["start_ns"]).alias("dur_ns")
        )
        for rank in analysis.run.ranks
    }
    return collective_skew(ranks).slowest


def _longest_compute(analysis: Analysis) -> int | None:
    sums = {rank.rank: int(rank.steps["compute_ns"].sum()) for rank in analysis.run.ranks}
    return max(sums, key=lambda rank: sums[rank])


def _latest_start(analysis: Analysis) -> int | None:
    index = analysis.matched.index
    whole = (index >= 0).all(1)
    if not whole.any():
        return None
    starts = np.stack(
        [
            rank.calls["start_ns"].to_numpy()[index[whole, rank_index]]
            for rank_index, rank in enumerate(analysis.run.ranks)
        ],
        1,
    )
    after_first = (starts - starts.min(1, keepdims=True)).mean(0)
    return analysis.run.ranks[int(np.argmax(after_first))].rank


BASELINES: dict[str, Callable[[Analysis], int | None]] = {
    "least wait": _least_wait,
    "longest compute": _longest_compute,
    "latest start": _latest_start,
}


def score_runs(runs: Sequence[Recorded]) -> list[RunScore]:
    """Everybody's answer to every run of one half."""
    scores = []
    for run in runs:
        alike = [r for r in runs if r.truth.fault is None and r.truth.kind == run.truth.kind]
        others = [r for r in alike if r is not run]
        before = float(np.mean([r.step_ns for r in others])) if others else None
        scores.append(
            RunScore(
                truth=run.truth,
                ratio=run.step_ns / before if before and run.truth.fault is not None else None,
                confidence=run.analysis.suspect.confidence,
                answers=answers_of(run, others[0] if others else None),
            )
        )
    return scores


def methods(scores: Sequence[RunScore]) -> list[MethodScore]:
    """The scores of each method."""
    names = dict.fromkeys(name for score in scores for name in score.answers)
    return [_method(name, [s for s in scores if name in s.answers]) for name in names]


def _method(name: str, scores: Sequence[RunScore]) -> MethodScore:
    slow = [s for s in scores if s.truth.culprit is not None and (s.ratio or 0.0) >= SLOW]
    controls = [s for s in scores if s.truth.control]
    nobody = [s for s in scores if s.truth.culprit is None and not s.truth.control]
    reasons = [s for s in slow if s.answers[name].why is not None or name in ("ranks", "diagnose")]
    return MethodScore(
        method=name,
        rank=wilson(sum(s.answers[name].rank == s.truth.culprit for s in slow), len(slow)),
        why=wilson(sum(s.answers[name].why == s.truth.why for s in reasons), len(reasons)),
        alarms=wilson(sum(s.answers[name].rank is not None for s in controls), len(controls)),
        wrong=wilson(sum(s.answers[name].rank is not None for s in nobody), len(nobody)),
    )


class FalseAlarms(msgspec.Struct, frozen=True):
    """How often a rank is named in runs drawn from the steps of controls."""

    name: str
    resampled: Rate
    """Steps drawn again as they are: what this recording's own lateness does."""
    shuffled: Rate
    """The same with ranks exchanged in every step, so that no rank can really stand out."""


def false_alarms(run: Recorded, draws: int = RESAMPLED, seed: int = 11) -> FalseAlarms:
    """Draw runs from the steps of a control, and count those in which a rank is named."""
    draw = np.random.default_rng(seed)
    charge = run.analysis.charge
    ranks = run.analysis.matched.ranks
    why = None if run.analysis.why is None else run.analysis.why.why
    named = [0, 0]
    for _ in range(draws):
        picked = draw.integers(0, charge.steps.size, charge.steps.size)
        again = replace(charge, cost=charge.cost[picked], length=charge.length[picked])
        named[0] += _named(again, ranks, why)
        named[1] += _named(replace(again, cost=draw.permuted(again.cost, axis=1)), ranks, why)
    return FalseAlarms(run.truth.name, *(wilson(count, draws) for count in named))


def _named(charge: Charge, ranks: tuple[int, ...], why: str | None) -> bool:
    suspect: Suspect = find_suspect(charge, ranks, why)
    return suspect.rank is not None
