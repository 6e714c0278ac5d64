"""Stored parts never change an answer, whether they are there, missing, old or damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from solscope.corpus import commits, durations
from solscope.corpus.aggregates import calls, stored
from solscope.corpus.aggregates.part import KINDS
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.queries import call_times
from solscope.corpus.queries.importance import Importance, importance
from solscope.corpus.queries.shapes import hot_shapes
from solscope.corpus.queries.trend import trend
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

PROFILES = 6


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store of six profiles in six files, without parts."""
    folder = tmp_path_factory.mktemp("plain")
    corpus = create_corpus(folder / "store")
    for at in range(PROFILES):
        path = write_trace(folder / f"t{at}.json", gemm_us=20 + at, m=64 << at % 3, day=at)
        options = ExtractOptions(tags=(("team", f"team{at % 2}"),))
        corpus.append([extract(str(path), options)])
    return corpus


@pytest.fixture
def merged(plain: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """The same in one file, with stored parts."""
    monkeypatch.setattr(commits, "COMPACT_FROM", 2)
    monkeypatch.setattr(stored, "SMALLEST", 1)
    corpus = open_corpus(shutil.copytree(plain.url, tmp_path / "store"))
    compact(corpus)
    assert len(stored._index(corpus.url)) == 1
    return corpus


def answers(corpus: Corpus) -> list[object]:
    """All kinds of questions."""
    found: list[object] = [importance(corpus, kind) for kind in KINDS]
    found += [
        importance(corpus, "kernel", ["team", "phase"], "gpu-time"),
        importance(corpus, "operator", where={"team": "team1"}),
        importance(corpus, "shape", where={"phase": "(unknown)"}),
        hot_shapes(corpus, buckets=True),
        trend(corpus, "dense_gemm"),
        trend(corpus, "gemm", metric="share"),
    ]
    return found


def test_answers_are_the_same_with_and_without_parts(plain: Corpus, merged: Corpus) -> None:
    assert answers(merged) == answers(plain)


def test_parts_are_read_where_they_are(merged: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    before = importance(merged)

    def fails(*_: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(stored, "build", fails)
    assert importance(merged) == before


def test_call_times_of_some_profiles_are_read_from_parts(
    merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some() -> list[Importance]:
        return [
            importance(merged, "kernel", where={"team": "team1"}),
            importance(merged, "shape", ["team"]),
            importance(merged, "role", where={"phase": "(unknown)", "team": "team0"}),
        ]

    before = some()
    monkeypatch.setattr(stored, "_calls_from_rows", lambda *_: pytest.fail("rows were read"))
    # Each profile is a slice of its own.
    monkeypatch.setattr(calls, "ROW_GROUP", -1)
    assert some() == before


def test_kernels_of_some_profiles_are_read_from_parts(
    plain: Corpus, merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"team": "team1"}
    expected = hot_shapes(plain, where=where)
    monkeypatch.setattr(stored, "_kernels_from_rows", lambda *_: pytest.fail("rows were read"))
    assert hot_shapes(merged, where=where) == expected


def test_damaged_call_times_are_made_again(merged: Corpus) -> None:
    before = importance(merged, where={"team": "team1"})
    (part,) = stored._index(merged.url)
    times = Path(merged.url, "aggregates", stored.FORMAT, part, "times.parquet")
    times.write_bytes(times.read_bytes()[:100])
    assert importance(merged, where={"team": "team1"}) == before


def test_a_damaged_or_missing_part_is_made_again(plain: Corpus, merged: Corpus) -> None:
    expected = importance(plain)
    (part,) = stored._index(merged.url)
    cells = Path(merged.url, "aggregates", stored.FORMAT, part, "operator-cells.parquet")
    cells.write_bytes(cells.read_bytes()[:100])
    assert importance(merged) == expected
    shutil.rmtree(cells.parent)
    assert importance(merged) == expected


def test_profiles_added_and_removed_later_count(
    plain: Corpus, merged: Corpus, tmp_path: Path
) -> None:
    other = open_corpus(shutil.copytree(plain.url, tmp_path / "other"))
    more = extract(str(write_trace(tmp_path / "more.json", gemm_us=90)))
    gone = plain.profiles()["id"][2]
    for corpus in (merged, other):
        corpus.append([more])
        corpus.remove([gone])
    assert importance(merged) == importance(other)


def test_parts_of_files_out_of_use_are_removed(merged: Corpus) -> None:
    (before,) = stored._index(merged.url)
    merged.remove([merged.profiles()["id"][0]])
    compact(merged)
    (after,) = stored._index(merged.url)
    assert before != after
    folders = Path(merged.url, "aggregates", stored.FORMAT).glob("*/")
    assert [folder.name for folder in folders if folder.is_dir()] == [after]


@pytest.mark.long
def test_parts_that_are_made_in_groups_give_the_same(
    plain: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers(plain)
    monkeypatch.setattr(stored, "AT_ONCE", 1)
    assert len(list(stored.parts(plain, "operator", plain.profiles()))) == PROFILES
    assert answers(plain) == before


def quantiles(result: Importance) -> list[tuple[float | None, float | None]]:
    return [(row.p50_us, row.p90_us) for row in result.rows]


def test_a_sample_is_said_to_be_one(plain: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importance(plain, where={"team": "team1"})
    assert whole.warnings == []
    monkeypatch.setattr(call_times, "MOST_PROFILES", 2)
    sampled = importance(plain, where={"team": "team1"})
    assert sampled.warnings == [
        "medians and 90 % quantiles are of 2 of 3 profiles, chosen at random"
    ]
    assert [row.importance_pct for row in sampled.rows] == [
        row.importance_pct for row in whole.rows
    ]
    assert quantiles(sampled) != quantiles(whole)
    # Without a filter, counts of whole files are used, which need no sample.
    assert importance(plain).warnings == []


def test_a_sample_has_the_same_quantiles_in_any_order(
    plain: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts are whole numbers: where half of the calls end, rounding must not decide."""
    seen = []

    def quantiles_of(frame: pl.LazyFrame, by: list[str], shares: tuple[float, ...]) -> pl.LazyFrame:
        seen.append(frame.collect_schema()["calls"])
        return durations.quantiles_of(frame, by, shares)

    monkeypatch.setattr(call_times, "MOST_PROFILES", 2)
    monkeypatch.setattr(call_times, "quantiles_of", quantiles_of)
    importance(plain, where={"team": "team1"})
    assert set(seen) == {pl.Int64}


def test_each_group_has_a_sample_of_its_own(
    plain: Corpus, merged: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_times, "MOST_PROFILES", 4)
    for corpus in (plain, merged):
        sampled = importance(corpus, group_by=["team"])
        assert sampled.warnings == [
            "medians and 90 % quantiles of groups are of 4 of 6 profiles, chosen at random"
        ]
        assert [group.profiles for group in sampled.groups] == [3, 3]
        assert all(row.p50_us is not None for group in sampled.groups for row in group.rows)
    ids = [row["id"] for row in plain.profiles().iter_rows(named=True) if "team1" in row["tags"]]
    plain_two = importance(plain, group_by=["team"])
    own = next(group for group in plain_two.groups if group.group == {"team": "team1"})
    expected = sorted(20 + at for at in (1, 3, 5) if team_id(plain, at) in sorted(ids)[:2])
    gemm = next(row for row in own.rows if row.key == "dense_gemm")
    assert gemm.p50_us == pytest.approx(expected[0], rel=0.008)
    assert gemm.p90_us == pytest.approx(expected[1], rel=0.008)


def team_id(corpus: Corpus, number: int) -> str:
    """The profile of trace `number`."""
    rows = corpus.profiles().iter_rows(named=True)
    return next(str(row["id"]) for row in rows if row["file"].endswith(f"t{number}.json"))
