from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from solscope.corpus import delta
from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.listing import find_ids, list_profiles
from solscope.corpus.schema import TABLES, VERSION_KEY, schema
from solscope.corpus.store import Corpus, create_corpus, entry_time_ns, open_corpus
from solscope.errors import DamagedFileError, InputError, MissingToolError, UsageError
from tests.unit.corpus.traces import write_trace


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return create_corpus(tmp_path / "store")


def traces(folder: Path, count: int) -> list[str]:
    return [
        str(write_trace(folder / f"t{at}.json", gemm_us=20 + at, day=at)) for at in range(count)
    ]


def test_a_new_store_is_empty_and_opens_again(tmp_path: Path, corpus: Corpus) -> None:
    status = open_corpus(tmp_path / "store").status()
    assert (status.profiles, status.events, status.bytes, status.store_schema) == (0, 0, 0, 1)
    assert create_corpus(tmp_path / "store").url == corpus.url
    assert verify(corpus).ok


def test_tables_can_be_read_without_us(corpus: Corpus, tmp_path: Path) -> None:
    add_profiles(corpus, traces(tmp_path, 2), workers=1)
    for name in TABLES:
        table = pl.read_delta(f"{corpus.url}/{name}")
        assert table.schema == schema(name)
    assert pl.read_delta(f"{corpus.url}/profiles").height == 2


def test_the_same_content_is_added_once(corpus: Corpus, tmp_path: Path) -> None:
    (path,) = traces(tmp_path, 1)
    copy = shutil.copy(path, tmp_path / "copy.json")
    first = add_profiles(corpus, [path, copy], workers=1)
    again = add_profiles(corpus, [path], workers=1)
    assert (first.added, first.skipped) == (1, 1)
    assert (again.added, again.skipped) == (0, 1)
    assert corpus.profiles().height == 1
    assert corpus.table("times").collect().height == 3


def test_a_store_may_be_moved(corpus: Corpus, tmp_path: Path) -> None:
    add_profiles(corpus, traces(tmp_path, 2), workers=1)
    moved = shutil.move(corpus.url, tmp_path / "elsewhere")
    assert verify(open_corpus(moved)).ok
    assert open_corpus(f"file://{moved}").status().profiles == 2


@pytest.mark.parametrize("name", ["two words", "50%", "a#b?c", "größe"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    made = create_corpus(tmp_path / name / "store")
    add_profiles(made, traces(tmp_path, 2), workers=1)
    again = open_corpus(made.url)
    assert again.profiles().height == 2
    assert verify(again).ok
    assert again.remove(again.known())
    assert again.status().profiles == 0


def test_a_name_that_delta_lake_takes_for_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose another name"):
        create_corpus(tmp_path / "two%20words")


def test_removing_takes_all_rows(corpus: Corpus, tmp_path: Path) -> None:
    paths = traces(tmp_path, 3)
    add_profiles(corpus, paths, workers=1)
    (first, second, _) = [row.id for row in list_profiles(corpus)]

    assert corpus.remove(find_ids(corpus, [first[:8], paths[1]])) == sorted([first, second])
    assert corpus.remove(["not there"]) == []

    assert corpus.profiles()["file"].to_list() == [paths[2]]
    assert corpus.raw("times").collect().height == 3
    assert verify(corpus).ok
    assert add_profiles(corpus, paths, workers=1).added == 2


def test_profiles_are_found_by_id_or_file(corpus: Corpus, tmp_path: Path) -> None:
    add_profiles(corpus, traces(tmp_path, 1), workers=1)
    with pytest.raises(UsageError, match="no profile 'abc'"):
        find_ids(corpus, ["abc"])
    with pytest.raises(UsageError, match="no profile '000000'"):
        find_ids(corpus, ["000000"])


def test_small_files_are_joined_and_nothing_changes(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "COMPACT_FROM", 5)
    for path in traces(tmp_path, 5):
        corpus.append([extract(path)])
    before = importance(corpus)
    assert len(corpus.files("times")) == 5
    corpus.compact()
    assert len(corpus.files("times")) == len(corpus.files("profiles")) == 1
    assert importance(corpus) == before
    assert verify(corpus).ok


# --- All or nothing


class KilledError(Exception):
    """Stands for kill -9 at one point."""


@pytest.mark.parametrize("point", [name for name in TABLES if name != "events"])
def test_a_batch_that_does_not_reach_its_last_commit_leaves_no_trace(
    corpus: Corpus, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = traces(tmp_path, 2)
    corpus.append([extract(first)])
    before = importance(corpus)
    write = delta.append

    def fails(url: str, rows: pl.DataFrame) -> None:
        if url.endswith(f"/{point}"):
            raise KilledError
        write(url, rows)

    with monkeypatch.context() as patch:
        patch.setattr(delta, "append", fails)
        with pytest.raises(KilledError):
            corpus.append([extract(second)])

    assert importance(corpus) == before
    checked = verify(corpus)
    assert checked.ok
    assert checked.leftover_entries == (0 if point == "times" else 1)
    assert corpus.append([extract(second)]) != []
    assert verify(corpus).ok
    assert corpus.profiles().height == 2


def test_leftovers_are_removed_after_a_day_and_not_before(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = traces(tmp_path, 1)
    rows = extract(path).times
    delta.append(
        f"{corpus.url}/times",
        rows.with_columns(pl.lit(f"{time.time_ns():016x}-0").alias("entry")).select(
            schema("times").names()
        ),
    )
    corpus.compact()
    assert corpus.status().leftover_entries == 1
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 25 * 3600 * 10**9)
    corpus.compact()
    assert corpus.status().leftover_entries == 0
    assert entry_time_ns("not an entry") == 0


def test_of_two_rows_for_one_content_the_earlier_counts(corpus: Corpus, tmp_path: Path) -> None:
    """As when two writers add the same file at the same moment."""
    found = extract(traces(tmp_path, 1)[0])
    corpus.append([found])
    (entry,) = corpus.profiles()["entry"]
    later = {**found.profile, "entry": f"{time.time_ns():016x}-f", "added_ns": time.time_ns()}
    delta.append(f"{corpus.url}/profiles", pl.DataFrame([later], schema=schema("profiles")))
    assert corpus.profiles()["entry"].to_list() == [entry]
    corpus.compact()
    assert corpus.raw("profiles").collect()["entry"].to_list() == [entry]


# --- Errors


def test_what_is_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="not a profile store; create one with `solscope corpus init"
    ):
        open_corpus(tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="not empty and not a store"):
        create_corpus(tmp_path / "full")
    with pytest.raises(UsageError, match="is a file; a store needs a folder"):
        create_corpus(tmp_path / "full" / "file")
    delta.create(f"{tmp_path}/other/profiles", schema("profiles"), "other", {})
    with pytest.raises(InputError, match="not of a profile store"):
        open_corpus(tmp_path / "other")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    delta.create(f"{tmp_path}/s/profiles", schema("profiles"), "profiles", {VERSION_KEY: "99"})
    with pytest.raises(InputError, match="tables of version 99; this solscope reads version 1"):
        open_corpus(tmp_path / "s")


def test_a_missing_table_is_named(corpus: Corpus, tmp_path: Path) -> None:
    add_profiles(corpus, traces(tmp_path, 1), workers=1)
    shutil.rmtree(f"{corpus.url}/times")
    with pytest.raises(DamagedFileError, match=r"/times: this table of the store is missing"):
        importance(corpus)
    assert not verify(corpus).ok


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingToolError, match=r"pip install 'solscope\[corpus\]'"):
        create_corpus(tmp_path / "store")
