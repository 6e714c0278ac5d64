"""A dashboard that is started again: what it needs, and what it finds kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from solscope import readers
from solscope.cache.listing import ANSWERS
from solscope.cache.settings import FOLDER
from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.errors import InputError, SolscopeError
from solscope.web import answer_cache
from solscope.web.answer_cache import DiskCache
from solscope.web.app import create_app
from solscope.web.dispatch import answer, endpoint_of
from solscope.web.library import Library
from solscope.web.sources import check_sources, find_sources
from solscope.web.warm_up import warm

ROOT = Path(__file__).parents[3]
TRACE = "tests/data/kineto_b200.json.gz"
SERVE = """
import json, sys
asked, sources, stamp = json.loads(sys.argv[1])
import uvicorn
import solscope.web.answer_cache, solscope.web.warm_up
from starlette.testclient import TestClient
from solscope.cli import run

def visit(server, sockets):
    client = TestClient(server.config.app, base_url="http://localhost")
    waits = {path: 'as="fetch"' in client.get(path).text for path in asked}
    loaded = [name for name in large if name in sys.modules]
    print(json.dumps([waits, loaded, own]))

uvicorn.Server.run = visit
solscope.web.warm_up.warm = lambda library: None
own = solscope.web.answer_cache.code_stamp()
solscope.web.answer_cache.code_stamp = lambda: stamp
large = ["numpy", "polars", "deltalake", "solscope.readers", "solscope.pages"]
sys.exit(run(["serve", "--port", "0", *sources]))
"""
"""Starts, opens pages, and tells which of them wait for an answer, what is loaded, and its stamp.

Answers are looked up by a stamp that is given: someone may edit the program while tests run, and
then there is nothing to find for the one that is started.
"""
STAMP = "of the program that kept the answers"


def serve_again(
    cache: Path, paths: list[str], sources: list[str], program: Path = ROOT / "src"
) -> Any:
    """What `SERVE` tells in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, json.dumps([paths, sources, STAMP])],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(program),
            "SOLSCOPE_CACHE_DIR": str(cache),
            "SOLSCOPE_NO_CACHE": "",
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kept_answers_are_served_without_the_libraries_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(answer_cache, "code_stamp", lambda: STAMP)
    store = tmp_path / "store"
    create_corpus(store).append([extract(TRACE)])
    os.utime(store / "profiles" / "_delta_log", (0, 0))  # Written long ago.
    sources = [str(store), TRACE, "tests/data/bench_results.jsonl"]
    disk_cache = DiskCache(tmp_path / FOLDER / ANSWERS)
    check_sources(sources, disk_cache)
    library = Library(sources, disk_cache)
    monkeypatch.setattr(library.idle, "wait", lambda *_: None)
    warm(library)
    (entry,) = library.entries
    for part in ("", "/timeline", "/details"):
        endpoint, query = endpoint_of(f"/api/profile/{entry.id}{part}")
        answer(endpoint, library, query)
    paths = ["/", "/corpus", "/corpus?by=shape", "/bench", f"/profile/{entry.id}"]
    paths += ["/suite", "/suite/rms_norm"]
    waits, loaded, _ = serve_again(tmp_path, paths, sources)
    assert waits == dict.fromkeys(paths, False)
    assert loaded == []


def test_what_is_started_again_is_the_same_program(tmp_path: Path) -> None:
    """Of a copy, which nobody edits: a rebase writes the same file twice within a second."""
    package = tmp_path / "program" / "solscope"
    shutil.copytree(Path(answer_cache.__file__).parents[1], package)
    before = answer_cache._stamp_of(package)
    *_, stamp = serve_again(tmp_path, ["/"], ["demo:vllm-b200"], package.parent)
    assert stamp == before


def test_a_page_that_must_be_made_is_asked_for_by_the_browser(tmp_path: Path) -> None:
    waits, *_ = serve_again(tmp_path, ["/", "/suite"], ["demo:vllm-b200"])
    assert waits == {"/": False, "/suite": True}


def test_two_solutions_are_compared_without_the_libraries_that_read_profiles() -> None:
    code = (
        "import sys\n"
        "from solscope.web.library import Library\n"
        "from solscope.web.dispatch import answer, endpoint_of\n"
        "library = Library(['tests/data/bench_results.jsonl'])\n"
        "a, b = library.solutions()[:2]\n"
        "endpoint, _ = endpoint_of('/api/bench/compare')\n"
        "assert b'verdict' in answer(endpoint, library, {'a': a, 'b': b})\n"
        "assert 'polars' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)


def test_files_are_recognized_again_only_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache, folder = DiskCache(tmp_path / "disk_cache"), tmp_path / "folder"
    (folder / "rank0").mkdir(parents=True)
    first, second = folder / "a.json", folder / "rank0" / "b.json"
    first.write_text('{"traceEvents": []}')
    second.write_text('{"traceEvents": []}')
    sources = [str(folder), str(folder / "a.*")]
    check_sources([str(first)], disk_cache)
    found = find_sources(sources, disk_cache)
    assert found.paths == [str(first), str(second)]

    def refuse(*_: object) -> None:
        raise AssertionError("it reads again")

    with monkeypatch.context() as patched:
        patched.setattr(readers, "choose", refuse)
        patched.setattr(readers, "find_profiles", refuse)
        check_sources([str(first)], disk_cache)
        assert find_sources(sources, disk_cache) == found
    second.write_text("no trace at all")
    assert find_sources(sources, disk_cache).paths == [str(first)]
    first.write_text("nor is this")
    with pytest.raises(SolscopeError):
        check_sources([str(first)], disk_cache)


def test_profiles_are_named_as_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache = DiskCache(tmp_path / "disk_cache")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text('{"traceEvents": []}')
    for name in ("a.json", "./a.json", str(tmp_path / "a.json")):
        assert find_sources([name, name], disk_cache).paths == [name]
    assert find_sources(["demo:vllm-b200"] * 2, disk_cache).paths == ["demo:vllm-b200"]


def test_names_need_not_be_text(tmp_path: Path) -> None:
    disk_cache, name = DiskCache(tmp_path / "disk_cache"), os.fsdecode(b"a\xff.json")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_text('{"traceEvents": []}')
    for _ in range(2):
        assert find_sources([str(folder)], disk_cache).paths == [str(folder / name)]
    library = Library([str(folder)], disk_cache)
    client = TestClient(create_app(library), base_url="http://localhost")
    (entry,) = client.get("/api/overview").json()["profiles"]
    assert (entry["label"], entry["path"]) == ("a\ufffd", f"{folder}/a\ufffd.json")
    asked = f"/api/profile/{entry['id']}"
    assert client.get(asked).json()["summary"]["path"] == entry["path"]
    (folder / name).unlink()
    assert "a\ufffd.json" in client.get(asked).json()["error"]


def test_what_is_no_store_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "profiles" / "_delta_log").mkdir(parents=True)
    os.utime(tmp_path / "profiles" / "_delta_log", (0, 0))
    with pytest.raises(InputError, match="not a profile store"):
        Library([str(tmp_path)], DiskCache(tmp_path / "disk_cache"))
