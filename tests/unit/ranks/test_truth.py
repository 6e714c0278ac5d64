"""Real runs: what was done to each is known (four slices of one H200, NCCL over loopback)."""

from __future__ import annotations

from pathlib import Path

import pytest

import solscope
from solscope.views.ranks import RunRanks

RUNS = Path(__file__).parents[3].parent / "shared/data/h200/ranks"


def read(name: str) -> RunRanks:
    folder = RUNS / name
    if not folder.is_dir():
        pytest.skip("recordings of ranks are not here")
    # Here, since processes would import more than they read; test_read.py has runs read by several.
    return solscope.rank_table(solscope.open_run(folder, processes=1))


@pytest.mark.parametrize(
    ("name", "rank", "why"), [("tp4-slow_gpu", 2, "gpu"), ("ep4-normal", 1, "host")]
)
def test_the_rank_at_fault_is_named_with_its_reason(name: str, rank: int, why: str) -> None:
    result = read(name)
    assert result.straggler.rank == rank
    assert result.straggler.why == why
    assert result.straggler.confidence > 0.9
    assert result.unmatched == 0
    assert result.clock.error_us is not None
    assert result.clock.error_us < 10


@pytest.mark.parametrize("name", ["tp4-normal", "tp4-normal_again"])
def test_a_run_that_nothing_was_done_to_names_nobody(name: str) -> None:
    result = read(name)
    assert result.straggler.rank is None
    assert result.straggler.confidence < 0.8
    assert result.imbalance.rank is None


def test_more_requests_on_one_rank_are_reported() -> None:
    result = read("ep4-more_tokens")
    assert [rank.requests for rank in result.ranks] == [48, 16, 16, 16]
    assert result.imbalance.rank == 0
    assert result.imbalance.tokens_max_over_mean == 2.0
    # Every token goes to four experts in six layers: what ranks receive is what all send.
    received = [rank.received_tokens for rank in result.ranks]
    assert sum(n for n in received if n is not None) == (48 + 3 * 16) * 4 * 6
    assert [layer.layer for layer in result.imbalance.by_layer] == list(range(6))


def test_the_bundled_run_names_its_slow_rank() -> None:
    result = solscope.rank_table(solscope.open_run("demo:ranks"))
    assert result.straggler.rank == 2
    assert result.straggler.why == "gpu"
    assert result.missing == []
    assert [group.ranks for group in result.groups] == [(0, 1, 2, 3)]
