"""What is kept, and what makes it no longer hold."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.errors import UsageError
from solscope.web import answer_cache
from solscope.web.answer_cache import DiskCache, MemoryCache
from solscope.web.dispatch import answer, endpoint_of
from solscope.web.library import Library
from solscope.web.sources import read_from, stamp
from solscope.web.store_view import StoreView

TRACE = Path("tests/data/kineto_b200.json.gz")


def test_kept_values_are_made_once_and_forgotten_in_order() -> None:
    made: list[int] = []
    kept: MemoryCache[int] = MemoryCache(2)

    def get(key: int) -> int:
        return kept.get(key, lambda: made.append(key) or key)  # type: ignore[func-returns-value]

    for key in (1, 2, 1, 3, 1, 2):
        assert get(key) == key
    assert made == [1, 2, 3, 2]


def test_answers_outlive_the_server(tmp_path: Path) -> None:
    made: list[int] = []

    def get(key: object, max_files: int = 10) -> bytes:
        def make() -> bytes:
            made.append(1)
            return repr(key).encode()

        return DiskCache(tmp_path / "disk_cache", max_files).get(key, make)

    assert get("a") == get("a") == b"'a'"
    assert len(made) == 1
    get("b")
    get("c", max_files=2)
    assert len(list((tmp_path / "disk_cache").iterdir())) == 2
    assert (tmp_path / "disk_cache").stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for folder in (None, tmp_path / "file"):
        assert DiskCache(folder).get("a", lambda: b"made") == b"made"


def test_what_fails_is_not_kept() -> None:
    kept: MemoryCache[int] = MemoryCache(2)
    with pytest.raises(UsageError):
        kept.get("a", lambda: _fail())
    assert kept.get("a", lambda: 1) == 1


def _fail() -> int:
    raise UsageError("no")


def test_what_a_killed_server_left_is_forgotten_with_the_rest(tmp_path: Path) -> None:
    half = tmp_path / f".{'0' * 64}.written"
    half.mkdir()
    os.utime(half, (0, 0))
    for key in "abc":
        DiskCache(tmp_path, 2).get(key, lambda: b"made")
    assert [path.is_file() for path in tmp_path.iterdir()] == [True, True]


def test_files_of_others_are_not_forgotten(tmp_path: Path) -> None:
    for name in ("thesis.txt", "folder"):
        (tmp_path / name).mkdir() if name == "folder" else (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    for key in "abc":
        DiskCache(tmp_path, 2).get(key, lambda: b"made")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"thesis.txt", "folder"} < names
    assert len(names) == 4


def test_an_empty_file_is_no_answer(tmp_path: Path) -> None:
    disk_cache = DiskCache(tmp_path)
    disk_cache.get("a", lambda: b"made")
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"")
    assert disk_cache.peek("a") is None
    assert disk_cache.get("a", lambda: b"again") == b"again"
    assert disk_cache.peek("a") == b"again"


def test_another_program_has_other_answers(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    for file in (first, second):
        file.write_text("1")
        os.utime(file, (1, 1))  # As installers do that give every file the same date.
    stamps = [answer_cache._stamp_of(tmp_path)]
    first.write_text("12")
    os.utime(first, (1, 1))
    stamps.append(answer_cache._stamp_of(tmp_path))
    second.unlink()
    stamps.append(answer_cache._stamp_of(tmp_path))
    assert len(set(stamps)) == 3
    kept = tmp_path / "__pycache__" / "rules.kept"
    kept.parent.mkdir()
    kept.write_text("1")  # As the first start leaves it.
    assert answer_cache._stamp_of(tmp_path) == stamps[-1]


def test_a_file_replaced_by_one_of_equal_size_and_date_is_another(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    for path, text in ((file, "one"), (other, "two")):
        path.write_text(text)
        os.utime(path, (1, 1))
    before = stamp(file)
    os.utime(other, (1, 1))
    other.replace(file)
    assert stamp(file) != before


def ask(library: Library, asked: str, **query: str) -> Any:
    endpoint, named = endpoint_of(asked)
    return msgspec.json.decode(answer(endpoint, library, {**named, **query}))


def test_sensors_beside_a_profile_are_part_of_it(tmp_path: Path) -> None:
    trace = tmp_path / "a.b.pt.trace.json.gz"
    shutil.copy(TRACE, trace)
    library = Library([str(trace)], DiskCache(tmp_path / "disk_cache"))
    asked = f"/api/profile/{library.entries[0].id}"
    codes = [{one["code"] for one in ask(library, asked)["summary"]["warnings"]}]
    (tmp_path / "a.b.metrics.csv").write_text("no,samples\n")
    codes.append({one["code"] for one in ask(library, asked)["summary"]["warnings"]})
    assert codes[1] - codes[0] == {"metrics_damaged"}


def test_a_saved_profile_changes_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "events.parquet").write_bytes(b"1")
    before = read_from(str(tmp_path / "saved"))
    (tmp_path / "saved" / "events.parquet").write_bytes(b"12")
    assert read_from(str(tmp_path / "saved")) != before


def test_two_profiles_are_called_by_labels_that_tell_them_from_all_others(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a/x.json.gz", "b/y.json.gz", "c/x.json.gz")]
    for file in files:
        file.parent.mkdir()
        shutil.copy(TRACE, file)
    disk_cache = DiskCache(tmp_path / "disk_cache")

    def labels(sources: list[Path]) -> list[str]:
        library = Library(list(map(str, sources)), disk_cache)
        a, b = (one.id for one in library.entries[:2])
        found = ask(library, "/api/compare", a=a, b=b)
        return [one["label"] for one in found["comparison"]["profiles"]]

    assert labels(files[:2]) == ["x", "y"]
    assert labels(files) == ["a/x", "b/y"]


def test_results_are_called_as_they_were_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("tests/data")
    names = ["bench_results.jsonl", "./bench_results.jsonl"]
    stamps = [Library([name]).result_stamps() for name in names]
    assert stamps[0] != stamps[1]
    assert stamps[0][0][1:] == stamps[1][0][1:]


def test_copies_of_a_store_that_grow_apart_have_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    create_corpus(tmp_path / "a" / "store")
    shutil.copytree(tmp_path / "a" / "store", tmp_path / "b" / "store")
    views = []
    for folder, demo in (("a", "demo:vllm-b200"), ("b", "demo:vllm-mi300x-graph")):
        monkeypatch.chdir(tmp_path / folder)
        create_corpus("store").append([extract(demo)])
        views.append(StoreView("store", DiskCache(tmp_path / "disk_cache")))
    assert views[0].version()[:2] == views[1].version()[:2]
    assert views[0].version() != views[1].version()
    assert [view.url for view in views] == [str(tmp_path / one / "store") for one in "ab"]
