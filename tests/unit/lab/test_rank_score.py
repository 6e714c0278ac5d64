"""Scores of runs of the lab: who is right, who raises false alarms."""

from __future__ import annotations

from dataclasses import replace

from solscope.lab.rank_score import (
    Recorded,
    Truth,
    answers_of,
    false_alarms,
    methods,
    score_runs,
)
from solscope.ranks.analysis import analyze
from tests.ranks_making import US, Program, make

NORMAL = Truth("normal", "tp", None, 0, 16, False, None, None, True)


def recorded(truth: Truth, late: int | None = None, seed: int = 1) -> Recorded:
    program = Program(steps=12, seed=seed, late=lambda rank, *_: 300 * US if rank == late else 0)
    return Recorded(truth, analyze(make(program)))


def test_faults_are_scored_against_normal_runs_of_their_kind() -> None:
    slow = Truth("slow", "tp", "slow_host", 1, 16, False, 2, "host", False)
    other = Truth("graph", "tp", None, 0, 16, True, None, None, True)
    runs = [recorded(NORMAL), recorded(slow, late=2), recorded(other, seed=5)]
    scores = score_runs(runs)
    assert [score.ratio is None for score in scores] == [True, False, True]
    assert scores[1].ratio is not None
    assert scores[1].ratio > 1.3
    assert scores[1].answers["ranks"].rank == 2
    assert scores[1].answers["diagnose"].rank == 2
    by_name = {row.method: row for row in methods(scores)}
    assert (by_name["ranks"].rank.hits, by_name["ranks"].rank.n) == (1, 1)
    assert (by_name["ranks"].why.hits, by_name["ranks"].alarms.hits) == (1, 0)
    # A baseline names a rank in every control.
    assert by_name["least wait"].alarms.hits == by_name["least wait"].alarms.n == 2
    assert by_name["least wait"].why.n == 0


def test_baselines_are_what_they_say() -> None:
    run = recorded(replace_culprit(3), late=3)
    answers = answers_of(run, None)
    assert answers["least wait"].rank == 3
    assert answers["latest start"].rank == 3
    ranks = [
        replace(rank, steps=rank.steps.with_columns(compute_ns=rank.rank + 1))
        for rank in run.analysis.run.ranks
    ]
    longer = replace(run.analysis, run=replace(run.analysis.run, ranks=tuple(ranks)))
    assert answers_of(Recorded(NORMAL, longer), None)["longest compute"].rank == 3


def replace_culprit(rank: int) -> Truth:
    return Truth("slow", "tp", "slow_host", 1, 16, False, rank, "host", False)


def test_drawn_controls_raise_no_alarm_unless_a_rank_is_late() -> None:
    quiet = false_alarms(recorded(NORMAL), draws=20)
    assert (quiet.resampled.hits, quiet.shuffled.hits) == (0, 0)
    late = false_alarms(recorded(NORMAL, late=1), draws=20)
    assert late.resampled.hits == 20
    assert late.shuffled.hits <= 2
