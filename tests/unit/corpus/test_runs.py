"""Ranks of a run count once: in importance, its intervals, and trends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.trend import trend
from solscope.corpus.runs import TOGETHER_NS, ranks_of, run_of
from solscope.corpus.store import Corpus, create_corpus
from tests.unit.corpus.traces import write_trace

SECOND = 10**9


def profiles(*rows: dict[str, Any]) -> pl.DataFrame:
    usual: dict[str, Any] = {
        "world_size": 2, "format": "kineto", "model": "m", "framework": "vllm",
        "version": None, "gpu": "H200", "recorded_ns": 0,
    }  # fmt: skip
    table = [usual | {"id": f"{at:064x}"} | row for at, row in enumerate(rows)]
    return pl.DataFrame(table, schema_overrides={"version": pl.String, "rank": pl.Int64})


def numbers(*rows: dict[str, Any]) -> list[int]:
    return [int(number) for number in run_of(profiles(*rows))]


def test_files_of_one_folder_that_differ_in_their_rank_are_a_run() -> None:
    assert numbers({"file": "a/rank0.json", "rank": 0}, {"file": "a/rank1.json", "rank": 1}) == [
        0,
        0,
    ]
    assert numbers(
        {"file": "a/rank0/t.json", "rank": 0}, {"file": "a/rank1/t.json", "rank": 1}
    ) == [
        0,
        0,
    ]
    named = ("h_41.1700000000.pt.trace.json", "h_57.1700000003.pt.trace.json")
    assert numbers(*({"file": name, "rank": at} for at, name in enumerate(named))) == [0, 0]


@pytest.mark.parametrize(
    "names",
    [
        ("bs64-rank0.json", "bs64-rank1.json"),
        ("1700000000.5-TP-0.trace.json.gz", "1700000001.25-TP-1.trace.json.gz"),
        ("dp0_pp0_tp0_ep0_rank0.1700000000.pt.json", "dp0_pp0_tp1_ep1_rank1.1700000001.pt.json"),
        ("node-a_41.1700000000123.pt.trace.json", "node-b_57.1700000003456.pt.trace.json"),
        ("bs1_0.json", "bs1_1.json"),
        ("node0_rank0.json", "node1_rank1.json"),
    ],
)  # fmt: skip
def test_names_of_ranks_as_engines_write_them(names: tuple[str, str]) -> None:
    assert numbers(*({"file": f"a/{name}", "rank": at} for at, name in enumerate(names))) == [0, 0]


@pytest.mark.parametrize(
    "names",
    [
        ("bs1-rank0.json", "bs64-rank1.json"),
        ("bs1_0.json", "bs64_1.json"),
        ("in1024out1.rank0.json", "in2048out1.rank1.json"),
        ("trace_7.json", "trace_9.json"),
    ],
)
def test_numbers_that_are_no_rank_tell_runs_apart(names: tuple[str, str]) -> None:
    assert numbers(*({"file": f"a/{name}", "rank": at} for at, name in enumerate(names))) == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"file": "b/rank1.json"},
        {"file": "a/rank1-prefill.json"},
        {"world_size": 4},
        {"model": "n"},
        {"rank": 0},
        {"rank": None},
        {"recorded_ns": TOGETHER_NS + 1},
    ],
)
def test_what_differs_otherwise_is_no_rank_of_it(other: dict[str, Any]) -> None:
    first = {"file": "a/rank0.json", "rank": 0}
    assert numbers(first, {"file": "a/rank1.json", "rank": 1} | other) == [0, 1]


def test_a_run_does_not_grow_from_file_to_file() -> None:
    """Each begins soon after the one before, the third too late after the first."""
    rows = [
        {"file": f"a/rank{at}.json", "rank": at, "recorded_ns": at * TOGETHER_NS * 2 // 3}
        for at in range(3)
    ]
    assert numbers(*rows) == [0, 0, 2]


def test_the_same_names_every_night_are_a_run_each() -> None:
    day = 86_400 * SECOND
    rows = [
        {"file": f"ci/rank{rank}.json", "rank": rank, "recorded_ns": night * day + rank * SECOND}
        for rank in (1, 0)
        for night in range(3)
    ]
    runs = numbers(*rows)
    assert runs[:3] == runs[3:]
    assert len(set(runs)) == 3
    assert ranks_of(run_of(profiles(*rows))).tolist() == [2] * 6


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A run of four ranks in which a product takes 80 %, and one profile in which it takes 70 %."""
    folder = tmp_path_factory.mktemp("runs")
    made = create_corpus(folder / "store")
    ranks = [write_trace(folder / f"tp/rank{n}.json", rank=n, m=64 + n) for n in range(4)]
    alone = write_trace(folder / "one.json", gemm_us=70, add_us=10, mystery_us=20, day=1)
    options = ExtractOptions(tags=(("traffic", "2"),))
    add_profiles(made, [*ranks, alone], options, workers=1)
    return made


@pytest.mark.parametrize("weight", ["uniform", "tag:traffic"])
def test_a_run_counts_once_in_importance(corpus: Corpus, weight: str) -> None:
    result = importance(corpus, weight=weight)
    (row,) = (row for row in result.rows if row.key == "dense_gemm")
    assert row.importance_pct == pytest.approx((80 + 70) / 2)  # 78 where ranks count alone
    assert sum(row.importance_pct for row in result.rows) == pytest.approx(100)
    assert result.profiles == 5
    # Two things were recorded, and four equal ranks do not make one of them surer.
    assert row.ci95_pct is not None
    assert row.ci95_pct[0] < 60
    assert row.ci95_pct[1] > 90


def test_gpu_time_is_that_of_all_ranks(corpus: Corpus) -> None:
    (row,) = (r for r in importance(corpus, weight="gpu-time").rows if r.key == "dense_gemm")
    assert row.importance_pct == pytest.approx(100 * (4 * 40 + 140) / (4 * 50 + 200))


def test_one_rank_alone_counts_as_a_profile(corpus: Corpus) -> None:
    (row,) = (r for r in importance(corpus, where={"rank": "2"}).rows if r.key == "dense_gemm")
    assert row.importance_pct == pytest.approx(80)


def test_a_run_is_one_point_of_a_trend(corpus: Corpus) -> None:
    found = trend(corpus, "dense_gemm")
    assert [point.value for point in found.points] == [20.0, 70.0]
    assert Path(found.points[0].file).name == "rank0.json"
    assert found.left_out == 0
