"""Matching of collectives: each test has one thing that pairing by order gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from solscope.ranks import align
from solscope.ranks.match import Matched, match
from solscope.run import Run
from tests.ranks_making import MS, US, Program, make, with_call, without
from tests.sampling import some


def is_right(run: Run, matched: Matched, whole: Run) -> bool:
    """Whether every matched call is the same one: its place in the whole run decides."""
    for row in matched.index:
        places = set()
        for at, call in enumerate(row):
            if call >= 0:
                end = run.ranks[at].calls["end_ns"][int(call)]
                ends = whole.ranks[at].calls["end_ns"].to_numpy()
                places.add(int(np.flatnonzero(ends == end)[0]))
        if len(places) > 1:
            return False
    return True


def test_ranks_with_the_same_calls_match_whole() -> None:
    run = make(Program())
    matched = match(run)
    assert matched.index.shape == (60, 4)
    assert (matched.index >= 0).all()
    assert is_right(run, matched, run)


def test_clocks_may_differ_by_any_offset() -> None:
    run = make(Program(offset=lambda rank: rank * 7_777 * MS, drift_ppm=lambda rank: 20.0 * rank))
    matched = match(run)
    assert (matched.index >= 0).all()
    assert is_right(run, matched, run)


def test_a_recording_that_begins_later_matches_what_both_have() -> None:
    whole = make(Program(offset=lambda rank: 3 * MS * rank))
    run = without(whole, 2, range(20))
    matched = match(run)
    assert matched.unmatched == {0: 0, 1: 0, 2: 0, 3: 0}
    assert (matched.index[:20, 2] == -1).all()
    assert (matched.index[20:] >= 0).all()
    assert is_right(run, matched, whole)


def test_a_rank_without_calls_matches_nothing() -> None:
    run = without(make(Program()), 2, range(60))
    matched = match(run)
    assert (matched.index[:, 2] == -1).all()
    assert (matched.index[:, [0, 1, 3]] >= 0).all()


def test_recordings_that_overlap_in_part() -> None:
    whole = make(Program(ranks=2, offset=lambda rank: -40 * MS * rank))
    run = without(without(whole, 0, range(40, 60)), 1, range(25))
    matched = match(run)
    assert matched.index.shape[0] == 15
    assert matched.unmatched == {0: 25, 1: 20}
    assert is_right(run, matched, whole)


def test_a_call_more_on_one_rank_moves_no_other_pair() -> None:
    whole = make(Program())
    run = with_call(whole, 1, 30, 40 * US)
    matched = match(run)
    assert sum(matched.unmatched.values()) == 1
    assert matched.unmatched[1] == 1
    assert (matched.index >= 0).sum() == 240
    assert is_right(run, matched, whole)


def test_a_call_less_on_one_rank_moves_no_other_pair() -> None:
    whole = make(Program())
    run = without(whole, 3, [17])
    matched = match(run)
    assert matched.index[17, 3] == -1
    assert is_right(run, matched, whole)


def test_sequence_numbers_decide_where_they_are_recorded() -> None:
    whole = make(Program(ranks=2))
    numbered = [
        replace(r, calls=r.calls.with_columns(pl.int_range(100, 160).alias("sequence")))
        for r in whole.ranks
    ]
    shifted = replace(numbered[1], calls=numbered[1].calls.with_columns(pl.col("end_ns") + 5 * MS))
    run = without(replace(whole, ranks=(numbered[0], shifted)), 1, range(10))
    matched = match(run)
    assert set(matched.table["by"]) == {"sequence"}
    assert matched.index[:, 1].tolist() == list(range(50))
    assert matched.index[:, 0].tolist() == list(range(10, 60))


def test_a_sequence_number_that_occurs_twice_is_ambiguous() -> None:
    whole = make(Program(ranks=2))
    numbers = pl.Series("sequence", [*range(59), 58])
    numbered = [replace(r, calls=r.calls.with_columns(numbers)) for r in whole.ranks]
    run = replace(whole, ranks=tuple(numbered))
    matched = match(run)
    assert matched.unmatched == {0: 2, 1: 2}
    assert matched.index.tolist() == [[at, at] for at in range(58)]


def test_ranks_of_different_runs_are_not_matched() -> None:
    one = make(Program(ranks=2, jitter=200 * US))
    other = make(Program(ranks=2, jitter=900 * US, seed=2, transfer=300 * US))
    run = replace(one, ranks=(one.ranks[0], other.ranks[1]))
    matched = match(run)
    assert matched.index.shape[0] == 0
    assert matched.unrelated == (0, 1)


def test_groups_are_matched_apart() -> None:
    whole = make(Program(ranks=4))
    named = [
        replace(
            r, calls=r.calls.with_columns(pl.lit("0,1" if r.rank < 2 else "2,3").alias("group"))
        )
        for r in whole.ranks
    ]
    matched = match(replace(whole, ranks=tuple(named)))
    assert matched.index.shape[0] == 120
    assert set(matched.table["group"]) == {"0,1", "2,3"}
    assert ((matched.index >= 0).sum(1) == 2).all()


def test_messages_of_different_sizes_are_different_collectives() -> None:
    whole = make(Program(ranks=2))
    odd = whole.ranks[1].calls.with_columns(
        pl.when(pl.int_range(60) == 5).then(4096).otherwise("bytes").alias("bytes")
    )
    matched = match(replace(whole, ranks=(whole.ranks[0], replace(whole.ranks[1], calls=odd))))
    assert matched.unmatched == {0: 1, 1: 1}


def test_a_send_matches_the_receive_of_its_peer() -> None:
    whole = make(Program(ranks=2, kind="send"))
    both = [
        replace(
            r,
            calls=r.calls.with_columns(
                pl.lit("send" if r.rank == 0 else "receive").alias("kind"),
                pl.lit(1 - r.rank, pl.Int64).alias("peer"),
            ),
        )
        for r in whole.ranks
    ]
    matched = match(replace(whole, ranks=tuple(both)))
    assert (matched.index >= 0).all()
    assert set(matched.table["kind"]) == {"send_receive"}
    assert not matched.table["synchronizing"].any()


REGULAR = Program(ranks=3, steps=12, calls=40, jitter=5 * US, offset=lambda rank: rank * 7 * MS)


@pytest.mark.parametrize(
    "change",
    some(
        [
            lambda run: run,
            lambda run: without(run, 1, [17]),
            lambda run: without(without(run, 1, [0]), 0, [12 * 40 - 1]),
            lambda run: without(without(run, 1, range(40)), 2, range(440, 480)),
            lambda run: with_call(run, 2, 100, 30 * US),
        ],
        2,
    ),
    ids=["same", "one less", "shifted by a call", "shifted by a step", "one more"],
)
def test_ranks_with_the_same_calls_are_matched_as_the_search_for_offsets_does(
    change: Callable[[Run], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where both have as many calls of the same kinds, but not the same ones."""
    run = change(make(REGULAR))
    quick = match(run)
    monkeypatch.setattr(align, "_clearly_same", lambda base, other: False)
    searched = match(run)
    assert np.array_equal(quick.index, searched.index)
    assert quick.table.equals(searched.table)


def test_nearly_all_ranks_are_matched_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> list[float]:
        raise AssertionError("offsets are searched for")

    monkeypatch.setattr(align, "offsets", search)
    matched = match(make(replace(REGULAR, jitter=40 * US)))
    assert (matched.index == np.arange(480)[:, None]).all()
