"""The table of ranks: columns that add up, bandwidth and bounds that are null when not known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import polars as pl
import pytest

import solscope
from solscope.profile import Device
from solscope.ranks.analysis import analyze
from solscope.ranks.lengths import step_lengths
from solscope.run import Run
from solscope.views.ranks import CollectiveRow, rank_table
from tests.ranks_making import MS, Program, make


def test_the_columns_of_a_step_add_up_to_the_start_of_the_next() -> None:
    run = solscope.open_run("demo:ranks")
    for rank in run.ranks:
        busy = rank.steps["compute_ns"] + rank.steps["comm_ns"] - rank.steps["overlap_ns"]
        whole = busy + rank.steps["held_ns"] + rank.steps["idle_ns"]
        assert dict(zip(rank.steps["step"], whole, strict=True)) == step_lengths(rank.steps)
        starts = rank.steps["start_ns"].to_list()
        assert whole[:-1].to_list() == [b - a for a, b in itertools.pairwise(starts)]
    for row in rank_table(run).ranks:
        parts = (row.compute_ms, row.comm_ms, row.held_ms, row.host_ms, row.overlap_ms)
        compute, comm, held, host, overlap = (part or 0.0 for part in parts)
        assert compute + comm - overlap + held + host == pytest.approx(row.step_ms, abs=1e-9)


def test_a_step_is_as_long_as_it_is_on_the_rank_itself() -> None:
    run = make(Program(steps=6))
    rank = run.ranks[1]
    # The steps of this rank end 1 ms apart from the next: the gap belongs to the step.
    steps = rank.steps.with_columns(
        pl.col("start_ns", "end_ns") + pl.int_range(pl.len()) * MS,
    )
    other = replace(run, ranks=(run.ranks[0], replace(rank, steps=steps), *run.ranks[2:]))
    assert [n - m for n, m in zip(_lengths(other, 1), _lengths(run, 1), strict=True)] == [
        MS, MS, MS, MS, MS, 0,
    ]  # fmt: skip
    rows = rank_table(other).ranks
    assert rows[0].step_ms is not None
    assert rows[1].step_ms == pytest.approx(rows[0].step_ms + 4 / 5)


def _lengths(run: Run, at: int) -> list[int]:
    return list(step_lengths(run.ranks[at].steps).values())


def _with_group(run: Run, group: str | None) -> Run:
    named = [
        replace(r, calls=r.calls.with_columns(pl.lit(group, pl.String).alias("group")))
        for r in run.ranks
    ]
    return replace(run, ranks=tuple(named))


def _row(run: Run) -> CollectiveRow:
    (row,) = rank_table(run).collectives
    return row


def test_the_bus_bandwidth_counts_the_ranks_of_the_group() -> None:
    run = make(Program())
    eight = _row(replace(_with_group(run, "0,1,2,3,4,5,6,7"), world_size=8))
    assert eight.ranks == 4
    assert eight.algbw_gbs is not None
    assert eight.busbw_gbs == pytest.approx(eight.algbw_gbs * 2 * 7 / 8)
    named = _row(_with_group(run, "group 0"))
    assert named.algbw_gbs is not None
    assert named.busbw_gbs == pytest.approx(named.algbw_gbs * 2 * 3 / 4)
    unknown = _row(replace(_with_group(run, "group 0"), world_size=8))
    assert unknown.busbw_gbs is None


def test_the_default_group_is_no_group_of_one() -> None:
    """torch calls it "0": with ranks missing, its transfers are inconclusive."""
    run = replace(_with_group(make(Program()), "group 0"), world_size=8)
    assert set(analyze(run).split.classes) <= {"inconclusive", "arrival"}


def _on(run: Run, hosts: list[str | None]) -> Run:
    device = Device(ordinal=0, name="NVIDIA H100 80GB HBM3")
    ranks = [
        replace(r, metadata=msgspec.structs.replace(r.metadata, host=host, devices=(device,)))
        for r, host in zip(run.ranks, hosts, strict=True)
    ]
    return replace(run, ranks=tuple(ranks))


def test_links_bound_only_groups_within_one_host() -> None:
    run = make(Program())
    assert _row(_on(run, ["a"] * 4)).bound_gbs == pytest.approx(450.0)
    assert _row(_on(run, ["a", "a", "b", "b"])).bound_gbs is None
    assert _row(_on(run, ["a", "a", "a", None])).bound_gbs is None
    missing = replace(_with_group(_on(run, ["a"] * 4), "0,1,2,3,4"), world_size=5)
    assert _row(missing).bound_gbs is None
