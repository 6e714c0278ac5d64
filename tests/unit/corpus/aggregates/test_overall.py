"""Sums over all profiles of a part give the answers that the cells of each profile give."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from solscope.corpus import commits
from solscope.corpus.aggregates import stored
from solscope.corpus.aggregates.overall import POOLS, pools_of
from solscope.corpus.aggregates.part import KINDS, KeyKind, Part
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.queries import overall_sums, share_means
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.select import select
from solscope.corpus.queries.selected_parts import SelectedPart, selected_parts
from solscope.corpus.queries.shapes import hot_shapes
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

PROFILES = 5


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store of some profiles, two of which take the same time."""
    folder = tmp_path_factory.mktemp("plain")
    corpus = create_corpus(folder / "store")
    for at in range(PROFILES):
        path = write_trace(folder / f"t{at}.json", gemm_us=20 + at // 2, m=64 << at % 2, day=at)
        corpus.append([extract(str(path))])
    return corpus


@pytest.fixture(scope="module")
def compacted(plain: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The same in one file, with stored parts."""
    target = tmp_path_factory.mktemp("compacted") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "COMPACT_FROM", 2)
        patch.setattr(stored, "SMALLEST", 1)
        corpus = open_corpus(shutil.copytree(plain.url, target))
        compact(corpus)
    return corpus


@pytest.fixture
def merged(compacted: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A copy of it, to change."""
    monkeypatch.setattr(stored, "SMALLEST", 1)
    return open_corpus(shutil.copytree(compacted.url, tmp_path / "store"))


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are drawn from pools, as in a large store."""
    for module in (overall_sums, share_means):
        monkeypatch.setattr(module, "EACH_ALONE", 0)


def answers(corpus: Corpus, kinds: Sequence[KeyKind] = ("kernel",)) -> list[object]:
    return [*(importance(corpus, kind) for kind in kinds), hot_shapes(corpus)]


def answers_from_cells(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, kinds: Sequence[KeyKind] = ("kernel",)
) -> list[object]:
    with monkeypatch.context() as patch:
        patch.setattr(SelectedPart, "is_whole", False)
        return answers(corpus, kinds)


def without_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("cells were read")

    monkeypatch.setattr(Part, "cells", fails)


def test_sums_and_cells_agree(
    plain: Corpus, merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers_from_cells(plain, monkeypatch, KINDS)
    without_cells(monkeypatch)
    assert answers(plain, KINDS) == expected
    assert answers(merged, KINDS) == expected


@pytest.fixture(scope="module")
def mixed_once(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Single profiles, a run of two ranks and one of three, in one file with stored parts."""
    folder = tmp_path_factory.mktemp("mixed")
    corpus = create_corpus(folder / "store")
    for at in range(3):
        path = write_trace(folder / f"t{at}.json", gemm_us=20 + at, day=at)
        corpus.append([extract(str(path))])
    for ranks in (2, 3):
        append_run(corpus, folder, ranks, range(ranks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "COMPACT_FROM", 2)
        patch.setattr(stored, "SMALLEST", 1)
        compact(corpus)
    return corpus


@pytest.fixture
def mixed(mixed_once: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A copy of it, to change."""
    monkeypatch.setattr(commits, "COMPACT_FROM", 2)
    monkeypatch.setattr(stored, "SMALLEST", 1)
    return open_corpus(shutil.copytree(mixed_once.url, tmp_path / "mixed"))


def append_run(corpus: Corpus, folder: Path, size: int, ranks: Sequence[int]) -> None:
    """Add some ranks of one run."""
    for rank in ranks:
        path = folder / f"of{size}" / f"rank{rank}.json"
        path.parent.mkdir(exist_ok=True)
        write_trace(path, gemm_us=30 + 7 * rank, add_us=5 + size, rank=rank, ranks=size)
        corpus.append([extract(str(path))])


def test_sums_and_cells_agree_where_runs_are_among_the_profiles(
    mixed: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers_from_cells(mixed, monkeypatch, KINDS)
    without_cells(monkeypatch)
    assert answers(mixed, KINDS) == expected
    # A run counts once, so that no single rank can move the mean as a profile of its own does.
    counted = counted_frame(mixed)
    assert sorted(counted["ranks"].to_list()) == [1, 1, 1, 2, 2, 3, 3, 3]


def counted_frame(corpus: Corpus) -> pl.DataFrame:
    (part,) = selected_parts(select(corpus), "operator")
    return part.part.counted


def test_a_rank_that_comes_later_changes_what_stored_ranks_count(
    mixed: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = answers(mixed)
    append_run(mixed, tmp_path, 4, [0])
    compact(mixed)
    append_run(mixed, tmp_path, 4, [1, 2])
    later = answers(mixed)
    assert later != fast
    assert later == answers_from_cells(mixed, monkeypatch)
    # The stored sums are of one rank that counts for itself, so that they cannot be used.
    without_cells(monkeypatch)
    with pytest.raises(AssertionError, match="cells were read"):
        answers(mixed)


def test_some_ranks_of_a_run_count_as_a_whole_one(
    mixed: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"rank": "0"}
    expected = importance(mixed, where=where)
    assert expected.profiles == 2
    assert expected.rows[0].frequency_pct == 100
    with monkeypatch.context() as patch:
        patch.setattr(SelectedPart, "is_whole", False)
        assert importance(mixed, where=where) == expected


def test_cells_are_read_where_profiles_do_not_count_the_same(
    merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cells(monkeypatch)
    with pytest.raises(AssertionError, match="cells were read"):
        importance(merged, weight="gpu-time")
    with pytest.raises(AssertionError, match="cells were read"):
        importance(merged, group_by=["gpu"])
    with pytest.raises(AssertionError, match="cells were read"):
        importance(merged, where={"phase": "(unknown)"})


def test_a_profile_with_rows_in_two_parts_is_counted_by_its_cells(
    merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = merged.profiles().row(0, named=True)
    again = merged.raw("times").filter(pl.col("entry") == profile["entry"]).collect()
    commits.append(merged.table_url("times"), again)
    assert [some.is_whole for some in selected_parts(select(merged), "kernel")] == [False, False]
    (warning,) = importance(merged).warnings
    assert "rows are duplicated" in warning
    assert answers(merged) == answers_from_cells(merged, monkeypatch)


def test_a_profile_that_was_not_yet_committed_gets_no_sums(
    merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(merged)
    shutil.rmtree(Path(merged.url, "aggregates"))
    some = merged.profiles().head(3)
    with monkeypatch.context() as patch:
        # As during a compaction while a batch is written.
        patch.setattr(Corpus, "profiles", lambda _: some)
        assert stored.store_parts(merged) == 1
    (part,) = selected_parts(select(merged), "kernel")
    assert part.complete
    assert not part.is_whole
    assert answers(merged) == expected


def test_removed_profiles_leave_the_answer(
    plain: Corpus, merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = plain.profiles()["id"][1]
    before = answers(merged)
    merged.remove([gone])
    after = answers(merged)
    assert after != before
    assert after == answers_from_cells(merged, monkeypatch)


def test_pools_are_alike_in_size_and_the_same_in_every_store() -> None:
    draw = np.random.default_rng(0)
    ids = pl.Series("id", [draw.bytes(32).hex() for _ in range(50 * POOLS)])
    sizes = np.bincount(pools_of(ids).to_numpy(), minlength=POOLS)
    assert sizes.size == POOLS
    assert 15 <= sizes.min() < sizes.max() <= 90  # Poisson: 50, and five standard deviations.
    assert pools_of(pl.Series(["000000ff" + "0" * 56])).to_list() == [255 % POOLS]
