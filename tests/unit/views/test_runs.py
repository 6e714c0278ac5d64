from __future__ import annotations

from pathlib import Path

import msgspec

from solscope.views.runs import computes_longest, runs
from solscope.views.summary import Summary, summarize
from tests.making import attributed, event


def summary(path: str, rank: int | None, world_size: int | None = 2) -> Summary:
    made = attributed(event("kernel", "gemm", 0, 100), rank=rank, world_size=world_size)
    return msgspec.structs.replace(summarize(made), path=path)


def test_files_that_differ_in_the_rank_alone_are_one_run() -> None:
    (run,) = runs(
        [
            summary("d/1700-TP-1-DECODE.trace.json.gz", 1),
            summary("d/1700-TP-0-DECODE.trace.json.gz", 0),
        ]
    )
    assert [row.rank for row in run.ranks] == [0, 1]
    assert Path(run.name).name == "1700-*-DECODE.trace.json.gz"
    assert run.missing == []


def test_stages_are_different_runs() -> None:
    assert runs([summary("TP-0-DECODE.json", 0), summary("TP-1-EXTEND.json", 1)]) == []


def test_a_missing_rank_is_named() -> None:
    (run,) = runs([summary("rank0.json", 0, 4), summary("rank3.json", 3, 4)])
    assert run.missing == [1, 2]


def test_torch_handler_names_and_rank_folders_group() -> None:
    assert runs(
        [
            summary("h_11.1700000000000.pt.trace.json", 0),
            summary("h_12.1700000000001.pt.trace.json", 1),
        ]
    )
    assert runs([summary("p/rank0/trace.json", 0), summary("p/rank1/trace.json", 1)])


def test_unrelated_files_are_no_run() -> None:
    assert runs([summary("a.json", None, None), summary("b.json", None, None)]) == []


def test_ranks_merged_into_one_file_are_a_run() -> None:
    made = attributed(
        event("kernel", "gemm", 0, 100, rank=0), event("kernel", "gemm", 0, 90, rank=1, device=1)
    )
    (run,) = runs([summarize(made)])
    assert [(row.rank, row.kernel_time_ms) for row in run.ranks] == [(0, 100e-6), (1, 90e-6)]


def test_a_rank_that_computes_clearly_longer_is_named() -> None:
    (run,) = runs([summary("rank0.json", 0), summary("rank1.json", 1)])
    assert computes_longest(run) == []
    slower = msgspec.structs.replace(run.ranks[1], compute_ms=1.03 * (run.ranks[1].compute_ms or 0))
    uneven = msgspec.structs.replace(run, ranks=[run.ranks[0], slower])
    assert computes_longest(uneven) == [1]
