from __future__ import annotations

import polars as pl

from solscope.ranks.skew import RankWait, collective_calls, collective_skew
from tests.making import attributed, event

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def calls(*durations: int, name: str = REDUCE) -> pl.DataFrame:
    return pl.DataFrame({"rank": 0, "name": [name] * len(durations), "dur_ns": list(durations)})


def test_what_exceeds_the_shortest_duration_is_waiting() -> None:
    skew = collective_skew({0: calls(100, 50), 1: calls(20, 90)})
    assert skew.ranks == [RankWait(0, 2, 70e-6, 80e-6), RankWait(1, 2, 70e-6, 40e-6)]
    assert skew.slowest == 1


def test_ranks_with_different_counts_cannot_be_compared() -> None:
    skew = collective_skew({0: calls(100), 1: calls(20, 90)})
    assert skew.ranks == []
    assert skew.reason == "ranks do not have the same collectives (rank 0: 1, rank 1: 2)"


def test_a_different_order_cannot_be_compared() -> None:
    skew = collective_skew({0: calls(100), 1: calls(20, name="ncclDevKernel_AllGather")})
    assert skew.reason == "ranks run different collectives in a different order"


def test_one_rank_waits_for_nobody() -> None:
    assert collective_skew({0: calls(100)}).reason == "one rank only"


def test_communication_kernels_are_taken_in_order_of_start() -> None:
    made = attributed(
        event("kernel", REDUCE, 200, 20),
        event("kernel", "gemm", 0, 100),
        event("kernel", REDUCE, 100, 10),
        rank=3,
    )
    assert collective_calls(made).rows() == [(3, REDUCE, 10), (3, REDUCE, 20)]
