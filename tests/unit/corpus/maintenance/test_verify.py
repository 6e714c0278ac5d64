from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from deltalake import write_deltalake

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from solscope.errors import DamagedFileError
from tests.unit.corpus.traces import write_trace


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store that no test changes."""
    folder = tmp_path_factory.mktemp("whole")
    made = create_corpus(folder / "store")
    paths = [write_trace(folder / f"t{at}.json", gemm_us=20 + at) for at in range(3)]
    add_profiles(made, paths, ExtractOptions(keep_events=True), workers=1)
    assert verify(made).ok
    return made


@pytest.fixture
def corpus(whole: Corpus, tmp_path: Path) -> Corpus:
    return open_corpus(shutil.copytree(whole.url, tmp_path / "store"))


def data_file(corpus: Corpus, table: str) -> Path:
    ((uri, _),) = corpus.files(table)
    return Path(uri)


def problems(corpus: Corpus) -> str:
    result = verify(corpus)
    assert not result.ok
    return "\n".join(f"{problem.where}: {problem.what}" for problem in result.problems)


def test_a_changed_time_is_found(corpus: Corpus) -> None:
    file = data_file(corpus, "times")
    rows = pl.read_parquet(file)
    first = pl.int_range(pl.len()) == 0
    more = pl.col("time_ns") + first.cast(pl.Int64)
    rows.with_columns(more.alias("time_ns")).write_parquet(file)
    assert "GPU time in ns" in problems(corpus)
    assert "profile " in problems(corpus)


def test_two_changes_that_cancel_out_are_found_by_the_hash(corpus: Corpus) -> None:
    file = data_file(corpus, "times")
    rows = pl.read_parquet(file)
    rows.with_columns(pl.col("kernel").reverse().over("entry")).write_parquet(file)
    assert "hash of times" in problems(corpus)


def test_a_lost_step_is_found(corpus: Corpus) -> None:
    file = data_file(corpus, "steps")
    pl.read_parquet(file).tail(-1).write_parquet(file)
    assert "rows in steps: 1 expected, 0 found" in problems(corpus)


def test_lost_events_are_found(corpus: Corpus) -> None:
    file = data_file(corpus, "events")
    pl.read_parquet(file).tail(-1).write_parquet(file)
    assert "events: 16 expected, 15 found" in problems(corpus)


@pytest.mark.parametrize("table", ["times", "steps", "profiles", "events"])
def test_a_file_that_cannot_be_read_is_named(corpus: Corpus, table: str) -> None:
    file = data_file(corpus, table)
    file.write_bytes(file.read_bytes()[:-20])
    assert f"{file.name}: cannot be read" in problems(corpus)


def test_a_file_that_is_gone_is_named(corpus: Corpus) -> None:
    file = data_file(corpus, "times")
    file.unlink()
    assert file.name in problems(corpus)


@pytest.mark.parametrize("table", ["times", "profiles"])
def test_readers_name_the_file_that_is_short_or_gone(corpus: Corpus, table: str) -> None:
    file = data_file(corpus, table)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DamagedFileError, match=file.name):
        corpus.raw(table)
    file.unlink()
    with pytest.raises(DamagedFileError, match="corpus verify"):
        corpus.raw(table)


def test_flipped_bytes_are_found(corpus: Corpus) -> None:
    file = data_file(corpus, "times")
    data = bytearray(file.read_bytes())
    for at in range(100, len(data) // 2, 37):
        data[at] ^= 0xFF
    file.write_bytes(bytes(data))
    assert problems(corpus)


def test_foreign_columns_are_found(corpus: Corpus) -> None:
    file = data_file(corpus, "steps")
    pl.DataFrame({"x": [1]}).write_parquet(file)
    assert "the columns are not those of this table" in problems(corpus)


# --- A second check


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SOLSCOPE_NO_CACHE")
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cached")
def test_files_that_were_in_order_are_not_read_again(corpus: Corpus) -> None:
    first, second = verify(corpus), verify(corpus)
    assert (first.files_from_earlier_check, second.files_from_earlier_check) == (0, 2)
    assert verify(corpus, full=True).files_from_earlier_check == 0


@pytest.mark.usefixtures("cached")
def test_a_file_that_has_changed_is_read_again(corpus: Corpus) -> None:
    verify(corpus)
    file = data_file(corpus, "times")
    rows = pl.read_parquet(file)
    rows.with_columns(pl.col("kernel").reverse().over("entry")).write_parquet(file)
    assert "hash of times" in problems(corpus)
    assert "hash of times" in problems(corpus)  # A file with a problem never counts as checked.


@pytest.mark.usefixtures("cached")
def test_a_changed_hash_in_profiles_is_found_by_a_second_check(corpus: Corpus) -> None:
    verify(corpus)
    file = data_file(corpus, "profiles")
    rows = pl.read_parquet(file)
    swapped = rows.with_columns(pl.col("times_sha256").reverse())
    swapped.write_parquet(file)
    assert problems(corpus)


def test_long_tables_are_checked_in_slices(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.corpus.maintenance.verify.AT_ONCE", 2)
    assert verify(corpus, full=True).ok
    file = data_file(corpus, "times")
    rows = pl.read_parquet(file)
    rows.with_columns(pl.col("kernel").reverse().over("entry")).write_parquet(file)
    assert len(verify(corpus).problems) == 3


@pytest.mark.parametrize("at_once", [1, 2, 4, 5])
def test_profiles_whose_rows_lie_between_those_of_others_are_whole(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """As a compaction leaves them that reads several files at the same time."""
    rows = corpus.raw("times").collect()
    mixed = rows.sort(pl.int_range(pl.len()).over("entry"), "entry")
    assert mixed["entry"].n_unique() == 3 < (mixed["entry"] != mixed["entry"].shift()).sum()
    write_deltalake(corpus.table_url("times"), mixed, mode="overwrite")
    monkeypatch.setattr("solscope.corpus.maintenance.verify.AT_ONCE", at_once)
    assert verify(corpus, full=True).problems == []
    changed = mixed.with_columns(pl.col("time_ns") + (pl.int_range(pl.len()) == 4).cast(pl.Int64))
    write_deltalake(corpus.table_url("times"), changed, mode="overwrite")
    (problem,) = verify(corpus, full=True).problems
    assert "GPU time in ns" in problem.what
