from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake.exceptions import DeltaError

from solscope.corpus import commits, delta
from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.forgetting import forget
from solscope.corpus.maintenance.repair import repair
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.listing import find_ids, list_profiles
from solscope.corpus.schema import ALL_TABLES, BATCHES, TABLES, VERSION_KEY, schema
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from solscope.errors import DamagedFileError, InputError, MissingToolError, UsageError
from tests.sampling import some
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
    assert (status.profiles, status.events, status.bytes, status.store_schema) == (0, 0, 0, 2)
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


@pytest.mark.parametrize("name", some(["two words", "50%", "a#b?c", "größe"], 2))
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
    monkeypatch.setattr(commits, "COMPACT_FROM", 5)
    for path in traces(tmp_path, 5):
        corpus.append([extract(path)])
    before = importance(corpus)
    assert len(corpus.files("times")) == 5
    compact(corpus)
    assert len(corpus.files("times")) == len(corpus.files("profiles")) == 1
    assert importance(corpus) == before
    assert verify(corpus).ok


# --- All or nothing


class KilledError(Exception):
    """Stands for kill -9 at one point."""


@pytest.mark.parametrize("point", some((name for name in ALL_TABLES if name != "events"), 2))
def test_a_batch_is_in_the_store_as_a_whole_or_not_at_all(
    corpus: Corpus, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = traces(tmp_path, 2)
    corpus.append([extract(first)])
    before = importance(corpus)
    write = commits.add_rows

    def fails(url: str, *rest: Any) -> None:
        if url.endswith(f"/{point}"):
            raise KilledError
        write(url, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "add_rows", fails)
        with pytest.raises(KilledError):
            corpus.append([extract(second)])

    checked = verify(corpus)
    assert checked.ok
    if point == BATCHES:  # After the commit: it is in the store, though nobody was told.
        assert checked.unrecorded_batches == 1
        assert repair(corpus).clean
        assert corpus.append([extract(second)]) == []
    else:
        assert importance(corpus) == before
        assert checked.leftover_entries == (0 if point == "times" else 1)
        assert corpus.append([extract(second)]) != []
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)
    assert corpus.profiles().height == 2


def leave_rows(corpus: Corpus, path: str, entry: str) -> None:
    """As a writer does that is killed before its last commit."""
    rows = extract(path).times.with_columns(pl.lit(entry).alias("entry"))
    commits.append(corpus.table_url("times"), rows.select(schema("times").names()))


def test_compaction_removes_leftovers_whatever_the_clock_says(
    corpus: Corpus, tmp_path: Path
) -> None:
    (path,) = traces(tmp_path, 1)
    leave_rows(corpus, path, "killed")
    assert corpus.status().leftover_entries == 1
    compact(corpus)
    assert corpus.status().leftover_entries == 0
    assert verify(corpus).ok


def test_a_batch_that_is_swept_while_it_is_written_is_written_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock cannot tell a slow writer from a killed one: compaction removes the rows of both."""
    (path,) = traces(tmp_path, 1)
    append = Corpus._append_profiles
    sweeps: list[str] = []

    def swept_first(self: Corpus, *rest: Any) -> list[str] | None:
        if not sweeps:
            sweeps.append("one")
            compact(corpus)
            assert self.raw("times").collect().is_empty()
        return append(self, *rest)

    monkeypatch.setattr(Corpus, "_append_profiles", swept_first)
    assert len(corpus.append([extract(path)])) == 1
    assert corpus.table("times").collect().height == 3
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)


def test_a_batch_that_begins_during_a_sweep_stays(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen the number of the sweep, and will not look for another one."""
    killed, late = traces(tmp_path, 2)
    leave_rows(corpus, killed, "killed")
    claim = Corpus.claim
    added: list[str] = []

    def then_add(self: Corpus, *rest: Any, **options: Any) -> int:
        number = claim(self, *rest, **options)
        added.extend(corpus.append([extract(late)]))
        return number

    monkeypatch.setattr(Corpus, "claim", then_add)
    compact(corpus)
    assert len(added) == 1
    assert corpus.raw("times").collect().height == 3
    assert verify(corpus).ok


def test_of_two_writers_with_one_content_only_one_adds_it(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked what is there before either commits."""
    (path,) = traces(tmp_path, 1)
    append = Corpus._append_profiles
    others: list[str] = []

    def after_another(self: Corpus, *rest: Any) -> list[str] | None:
        if not others:
            others.append("begun")
            others.extend(corpus.append([extract(path)]))
        return append(self, *rest)

    monkeypatch.setattr(Corpus, "_append_profiles", after_another)
    assert corpus.append([extract(path)]) == []
    assert len(others) == 2
    assert corpus.raw("profiles").collect().height == 1
    assert verify(corpus).ok


def test_a_commit_looks_only_at_files_that_are_new_since_the_first_look(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = traces(tmp_path, 2)
    corpus.append([extract(first)])
    looked: list[int] = []
    check = delta.check_sizes

    def counted(listed: list[tuple[str, int]]) -> None:
        looked.append(sum("/profiles/" in file for file, _ in listed))
        check(listed)

    monkeypatch.setattr(delta, "check_sizes", counted)
    assert len(corpus.append([extract(second)])) == 1
    assert looked == [1]


def test_of_two_rows_that_another_program_added_the_first_counts(
    corpus: Corpus, tmp_path: Path
) -> None:
    found = extract(traces(tmp_path, 1)[0])
    corpus.append([found])
    (entry,) = corpus.profiles()["entry"]
    later = {**found.profile, "entry": "f", "added_ns": 0, "batch": 7}
    commits.append(f"{corpus.url}/profiles", pl.DataFrame([later], schema=schema("profiles")))
    assert corpus.profiles()["entry"].to_list() == [entry]
    assert not verify(corpus).ok
    compact(corpus)
    assert corpus.raw("profiles").collect()["entry"].to_list() == [entry]


def test_batches_are_numbered_without_gaps(corpus: Corpus, tmp_path: Path) -> None:
    for path in traces(tmp_path, 3):
        corpus.append([extract(path)])
    corpus.remove([corpus.profiles()["id"][0]])
    records = corpus.raw(BATCHES).collect().sort("batch")
    assert records["batch"].to_list() == [1, 2, 3, 4]
    assert records["kind"].to_list() == ["add", "add", "add", "remove"]
    assert records["profiles"].to_list() == [1, 1, 1, -1]


def test_a_commit_is_on_the_disk_before_it_counts(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        sync(handle)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell which file was synced")
    monkeypatch.setattr(os, "fsync", noted)
    corpus.append([extract(traces(tmp_path, 1)[0])])
    root = Path(corpus.url).resolve()
    for name in ("times", "profiles", BATCHES):
        data = [Path(file).resolve() for file, _ in corpus.files(name)]
        entry = root / name / "_delta_log" / f"{1:020}.json"
        # The data first: a log entry must never name a file that is not there after a crash.
        assert synced.index(str(data[0])) < synced.index(str(entry))
        assert {str(root / name), str(entry.parent)} <= set(synced)


def test_a_snapshot_does_not_change(corpus: Corpus, tmp_path: Path) -> None:
    paths = traces(tmp_path, 3)
    corpus.append([extract(path) for path in paths])
    now = corpus.snapshot()
    corpus.remove([corpus.profiles()["id"][0]])
    assert (now.profiles().height, corpus.profiles().height) == (3, 2)
    assert now.table("times").collect().height == 9
    assert verify(now).ok


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
    with pytest.raises(InputError, match="tables of version 99; this solscope reads version 2"):
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


@pytest.mark.parametrize("table", ["times", "profiles", BATCHES])
def test_a_commit_that_fails_afterwards_is_not_made_twice(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """As where the log is forgotten while deltalake cleans up behind its own commit."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    path, other = traces(tmp_path, 2)
    add_profiles(corpus, [other], workers=1)
    transaction = DeltaTable.create_write_transaction
    failed: list[str] = []

    def fails_after(opened: DeltaTable, *rest: Any, **options: Any) -> None:
        transaction(opened, *rest, **options)
        if opened.table_uri.rstrip("/").endswith(table) and not failed:
            failed.append(opened.table_uri)
            raise DeltaError("Object at location _delta_log/00000000000000000001.json not found")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails_after)
    assert len(corpus.append([extract(path)])) == 1
    assert failed
    for name in ("times", "profiles", BATCHES):
        rows = corpus.raw(name).collect()
        assert rows.height == {"times": 6, "profiles": 2, BATCHES: 2}[name]
    checked = verify(corpus, full=True)
    assert (checked.problems, checked.profiles, checked.unrecorded_batches) == ([], 2, 0)


def test_damage_is_not_taken_for_a_race(corpus: Corpus, tmp_path: Path) -> None:
    add_profiles(corpus, traces(tmp_path, 1), workers=1)
    url = corpus.table_url(BATCHES)
    rows = corpus.raw(BATCHES).collect()
    ((file, _),) = corpus.files(BATCHES)
    calls: list[int] = []

    def change(table: Any) -> None:
        calls.append(table.version())
        commits.append(url, rows)  # Another writer.
        Path(file).unlink(missing_ok=True)
        delta.scan(table, schema(BATCHES))

    with pytest.raises(DamagedFileError, match="is missing or damaged"):
        commits.commit(url, change)
    assert len(calls) == 1


def test_an_operation_at_an_object_store_reads_each_log_once(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on only what was committed since; a folder is opened again, which costs little."""
    first, second, third = traces(tmp_path, 3)
    opened: list[str] = []
    open_table = delta.open_table

    def counted(url: str, version: int | None = None) -> Any:
        opened.append(url)
        return open_table(url, version)

    monkeypatch.setattr(delta, "open_table", counted)
    corpus.append([extract(first)])
    assert len(opened) == 5
    opened.clear()
    monkeypatch.setattr(delta, "is_url", lambda _: True)
    with delta.reusing_tables():
        corpus.append([extract(second)])
        assert len(opened) == len(set(opened)) == 4
        Corpus(corpus.url).append([extract(third)])
        assert corpus.known() == set(corpus.raw("profiles").collect()["id"])
    assert len(opened) == 4
    assert corpus.status().profiles == 3
    assert verify(corpus).ok


def forget_one(corpus: Corpus) -> None:
    corpus.remove(corpus.profiles()["id"].to_list()[:1])
    forget(corpus)


def test_a_table_whose_log_was_replaced_is_opened_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = traces(tmp_path, 3)
    corpus.append([extract(first)])
    monkeypatch.setattr(delta, "is_url", lambda _: True)
    with delta.reusing_tables():
        before = corpus.open("profiles").version()
        corpus.append([extract(second)])
        Context().run(forget_one, Corpus(corpus.url))  # Another process, which has opened nothing.
        assert not Path(corpus.url, "profiles", "_delta_log", f"{before:020}.json").exists()
        assert len(corpus.append([extract(third)])) == 1
    assert corpus.status().profiles == 2
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)


def test_a_file_that_a_compaction_removed_meanwhile_is_no_damage(
    corpus: Corpus, tmp_path: Path
) -> None:
    """As deltalake says it at an object store, where several compactions can be at work."""
    corpus.append([extract(traces(tmp_path, 1)[0])])
    url = corpus.table_url("times")
    ((named, _),) = corpus.files("times")
    attempts: list[int] = []

    def fails_once(missing: str) -> Callable[[Any], None]:
        def change(table: Any) -> None:
            attempts.append(table.version())
            if len(attempts) == 1:
                raise DeltaError(f"Parquet error: Object at location {missing} not found: 404")

        return change

    commits.commit(url, fails_once("store/times/part-00000-replaced.zstd.parquet"))
    assert len(attempts) == 2
    attempts.clear()
    with pytest.raises(InputError, match="cannot be changed"):
        commits.commit(url, fails_once(named))
    assert len(attempts) == 1
