"""Pipelines: stages, bubbles, and clocks that only messages limit."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from solscope.ranks.analysis import analyze
from solscope.views.ranks import rank_table
from tests.ranks_making import MS, US, Program, Stages, make, make_pipeline


def test_stages_follow_from_who_sends_to_whom() -> None:
    pipeline = analyze(make_pipeline(Stages())).pipeline
    assert pipeline is not None
    assert [(stage.stage, stage.ranks) for stage in pipeline.stages] == [
        (0, [0]),
        (1, [1]),
        (2, [2]),
        (3, [3]),
    ]


def test_ranks_that_all_meet_are_no_pipeline() -> None:
    assert analyze(make(Program())).pipeline is None


def test_messages_in_a_circle_are_no_pipeline() -> None:
    run = make_pipeline(Stages(stages=2))
    # The second stage sends something back.
    back = pl.when(pl.col("step") % 2 == 0)
    turned = []
    for rank, (before, after) in zip(run.ranks, [("send", "receive")] * 2, strict=True):
        kind = pl.col("kind").replace({before: after, after: before})
        turned.append(
            replace(rank, calls=rank.calls.with_columns(kind=back.then(kind).otherwise("kind")))
        )
    assert analyze(replace(run, ranks=tuple(turned))).pipeline is None


def test_bubbles_are_the_waiting_for_other_stages() -> None:
    result = rank_table(make_pipeline(Stages(microbatches=1, jitter=0)))
    assert result.pipeline is not None
    # With one microbatch only one stage works at a time.
    assert [stage.bubble_pct for stage in result.pipeline.stages] == pytest.approx(
        [75, 75, 75, 75], abs=9
    )
    assert result.pipeline.stages[0].receive_ms == 0
    assert result.pipeline.stages[3].receive_ms == pytest.approx(1.5, abs=0.2)
    assert result.pipeline.stages[3].other_ms == 0
    assert "A pipeline of 4 stages" in result.verdict


def test_stages_that_take_turns_are_no_stragglers() -> None:
    result = rank_table(make_pipeline(Stages()))
    assert result.straggler.rank is None
    assert result.straggler.step_share_pct == pytest.approx(0, abs=1)


def test_the_stage_that_all_others_wait_for_is_named() -> None:
    slow = Stages(
        compute=lambda stage: 1500 * US if stage == 1 else 500 * US,
        held=lambda stage: 1000 * US if stage == 1 else 0,
    )
    result = rank_table(make_pipeline(slow))
    assert (result.straggler.rank, result.straggler.why) == (1, "gpu")
    assert result.straggler.confidence == 0.909
    assert "stage 1 (rank 1)" in result.verdict


def test_sends_that_end_long_before_their_receives_are_matched_in_turn() -> None:
    run = make_pipeline(Stages(compute=lambda stage: 1500 * US if stage == 1 else 500 * US))
    matched = analyze(run).matched
    assert sum(matched.unmatched.values()) == 0
    sends = matched.table.filter(pl.col("kind") == "send_receive").height
    assert sends == 10 * 4 * 3
    # Half of the last step is not recorded by rank 1.
    rank = run.ranks[1]
    cut = replace(rank, calls=rank.calls.filter(~pl.Series(range(90)).is_in([87, 88, 89])))
    shorter = analyze(replace(run, ranks=(run.ranks[0], cut, *run.ranks[2:]))).matched
    assert 0 < sum(shorter.unmatched.values()) <= 4


def test_recorded_clocks_that_no_message_contradicts_are_used() -> None:
    clock = analyze(make_pipeline(Stages())).clock
    assert clock.method == "recorded"
    assert clock.error_us is not None
    assert 20 < clock.error_us < 4000


@pytest.mark.parametrize("ahead", [-40 * MS, 25 * MS])
def test_clocks_that_messages_contradict_are_moved_between_the_limits(ahead: int) -> None:
    run = make_pipeline(Stages(offset=lambda stage: ahead if stage == 2 else 0))
    clock = analyze(run).clock
    assert clock.method == "messages"
    assert clock.error_us is not None
    offsets = [rank.offset_us for rank in clock.ranks]
    assert offsets[2] == pytest.approx(ahead / US, abs=clock.error_us)
    assert clock.error_us < 4000


def test_messages_in_one_direction_only_limit_no_clock() -> None:
    run = make_pipeline(Stages())
    one_way = [
        replace(rank, calls=rank.calls.filter(pl.col("kind") != "broadcast")) for rank in run.ranks
    ]
    analysis = analyze(replace(run, ranks=tuple(one_way)))
    assert analysis.clock.method == "durations"
    # Stages and their waiting are known all the same.
    assert analysis.pipeline is not None
    assert analysis.pipeline.stages[3].receive_ms > 0


def test_a_stage_of_several_ranks_is_one_stage() -> None:
    one = make_pipeline(Stages(stages=2))
    # Two more ranks that do the same: rank 2 beside rank 0, rank 3 beside rank 1.
    more = [
        replace(
            rank,
            rank=rank.rank + 2,
            path=f"rank{rank.rank + 2}.json",
            calls=rank.calls.with_columns(pl.col("peer") + 2, group=pl.lit("2,3")),
        )
        for rank in one.ranks
    ]
    run = replace(one, world_size=4, ranks=(*one.ranks, *more))
    pipeline = analyze(run).pipeline
    assert pipeline is not None
    assert [stage.ranks for stage in pipeline.stages] == [[0, 2], [1, 3]]
