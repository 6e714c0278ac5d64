"""The page that a browser loads, and the answers that stand in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from solscope.attribution import opening
from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.web import page as pages
from solscope.web import store_view
from solscope.web.answer_cache import DiskCache
from solscope.web.app import create_app
from solscope.web.dispatch import endpoint_of
from solscope.web.idle import IdleMonitor
from solscope.web.library import Library
from solscope.web.page import first_questions
from solscope.web.warm_up import choices, warm

DEMO = "demo:vllm-b200"
TRACE = Path("tests/data/kineto_b200.json.gz")
LISTED = {"find": "a", "sort": "file-up", "start": "9"}


def opened(library: Library, path: str) -> tuple[dict[str, Any], set[str]]:
    """The answers in a page, by question, and the questions that the browser is to ask."""
    text = TestClient(create_app(library), base_url="http://localhost").get(path).text
    found = re.findall(r'<script type="application/json" data-answer="(.*?)">(.*?)</script>', text)
    asked = re.findall(r'<link rel="preload" as="fetch" crossorigin href="(.*?)">', text)
    return {unescape(name): json.loads(data) for name, data in found}, {*map(unescape, asked)}


def asked_of(profile: str) -> set[str]:
    return {profile, f"{profile}/timeline", f"{profile}/details"}


def test_a_page_carries_the_answers_that_are_at_hand() -> None:
    library = Library([DEMO])
    (entry,) = library.entries
    question = f"/api/profile/{entry.id}"
    answers, asked = opened(library, f"/profile/{entry.id}")
    assert (set(answers), asked) == ({"/api/overview"}, asked_of(question))
    client = TestClient(create_app(library), base_url="http://localhost")
    page = client.get(question).json()
    for more in asked_of(question):
        client.get(more)
    answers, asked = opened(library, f"/profile/{entry.id}")
    assert (answers[question], asked) == (page, set())
    assert answers["/api/overview"] == client.get("/api/overview").json()


def test_an_answer_is_begun_before_it_is_asked_for() -> None:
    library = Library([DEMO])
    assert opened(library, "/suite")[1]
    deadline = time.monotonic() + 300
    while opened(library, "/suite")[1]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_large_answer_does_not_stand_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_EMBEDDED_BYTES", 10)
    assert opened(Library([DEMO]), "/") == ({}, {"/api/overview"})


def test_no_name_ends_the_script_that_it_stands_in(tmp_path: Path) -> None:
    name = "<script>alert(1)<!--&"
    shutil.copy(TRACE, tmp_path / f"{name}.json.gz")
    library = Library([str(tmp_path)])
    answers, _ = opened(library, "/")
    assert name in answers["/api/overview"]["profiles"][0]["path"]
    answers, asked = opened(library, '/profile/"><script>alert(1)<')
    question = "/api/profile/%22%3E%3Cscript%3Ealert%281%29%3C"
    assert asked == asked_of(question)


@pytest.mark.parametrize(
    ("path", "query", "asked"),
    [
        ("/", {}, []),
        ("/nothing", {}, []),
        (
            "/profile/abc",
            {"hardware": "H200", "model": "c", "batch": "4"},
            [
                "/api/profile/abc?batch=4&hardware=H200&model=c",
                "/api/profile/abc/timeline",
                "/api/profile/abc/details",
            ],
        ),
        ("/compare", {"a": "1"}, []),
        ("/compare", {"a": "1", "b": "2"}, ["/api/compare?a=1&b=2"]),
        ("/bench", {"a": "x y", "b": "z"}, ["/api/bench", "/api/bench/compare?a=x+y&b=z"]),
        (
            "/bench",
            {"a": "x", "b": "z", "suite": "decode"},
            ["/api/bench?suite=decode", "/api/bench/compare?a=x&b=z&suite=decode"],
        ),
        ("/suite/rms_norm", {}, ["/api/suite/rms_norm?hardware=H20%2CXPU-A%2CH200"]),
        (
            "/corpus",
            {"gpu": "H200", "by": "kernel", "find": "gemm"},
            [
                "/api/corpus?gpu=H200",
                "/api/corpus/importance?by=kernel&find=gemm&gpu=H200",
                "/api/corpus/trend?gpu=H200&what=step",
            ],
        ),
        (
            "/corpus",
            {f"{name}.profiles-of-the-store": value for name, value in LISTED.items()},
            [
                "/api/corpus?find=a&sort=file-up&start=9",
                "/api/corpus/importance?by=operator",
                "/api/corpus/trend?what=step",
            ],
        ),
    ],
)
def test_what_a_view_begins_with(path: str, query: dict[str, str], asked: list[str]) -> None:
    found = first_questions(path, query)
    assert found == ["/api/overview", *asked]
    for one in found:
        endpoint_of(one)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    corpus = create_corpus(tmp_path / "store")
    corpus.append([extract(str(TRACE)), extract("tests/data/nsys_h100.sqlite")])
    return tmp_path / "store"


def test_answers_about_a_store_are_made_ahead(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Written long ago: the version of a store that was just written is not kept.
    os.utime(store / "profiles" / "_delta_log", (0, 0))
    disk_cache = DiskCache(tmp_path / "disk_cache")
    library = Library([str(store)], disk_cache)
    monkeypatch.setattr(library.idle, "wait", lambda *_: None)
    assert opened(library, "/corpus?gpu=B200")[1]
    warm(library)
    pair = "/corpus?framework=vllm&gpu=B200"
    paths = ("/corpus", "/corpus?by=shape", "/corpus?gpu=B200", pair, "/suite")
    for path in paths:
        assert opened(library, path)[1] == set()
    kept = len(list((tmp_path / "disk_cache").iterdir()))
    assert kept > 10 * len(paths)
    again = Library([str(store)], disk_cache)
    monkeypatch.setattr(again.idle, "wait", lambda *_: None)
    warm(again)
    assert opened(again, "/corpus?gpu=B200")[1] == set()
    assert len(list((tmp_path / "disk_cache").iterdir())) == kept


def test_answers_about_the_suite_are_made_ahead_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(["tests/data/bench_results.jsonl"], DiskCache(tmp_path))
    monkeypatch.setattr(library.idle, "wait", lambda *_: None)
    assert opened(library, "/suite/rms_norm")[1]
    warm(library)
    for path in ("/suite", "/bench", "/suite/rms_norm", "/suite/layer_norm"):
        assert opened(library, path)[1] == set()


def test_the_filters_of_most_profiles_are_answered_first(store: Path) -> None:
    rows = Library([str(store)]).store.corpus().profiles().sort("gpu", nulls_last=True)
    assert choices(rows[[1, 0, 0]]) == [
        {"framework": "vllm"},
        {"gpu": "B200"},
        {"framework": "(unknown)"},
        {"gpu": "(unknown)"},
        {"framework": "vllm", "gpu": "B200"},
        {"framework": "(unknown)", "gpu": "(unknown)"},
    ]


def test_a_version_is_looked_up_again_when_the_folder_has_changed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_view, "RECHECK_AFTER_S", 0.0)
    view = Library([str(store)]).store
    first = view.version()
    looked: list[int] = []

    def look(_: object) -> tuple[str, int, int]:
        looked.append(1)
        return "new", len(looked), 1

    monkeypatch.setattr(type(view.newest), "version", look)
    assert view.version() == first
    assert not looked
    (store / "profiles" / "_delta_log" / "a commit").touch()
    assert view.version() == ("new", 1, 1)


def test_work_waits_until_nobody_asks() -> None:
    quiet, ended = IdleMonitor(), threading.Event()

    def work() -> None:
        quiet.wait(0.01)
        ended.set()

    with quiet.request():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        time.sleep(0.05)
        assert not ended.is_set()
    assert ended.wait(timeout=300)


@pytest.mark.reads_anew
def test_what_is_done_for_a_profile_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library([DEMO])
    (entry,) = library.entries
    client = TestClient(create_app(library), base_url="http://localhost")
    seen: list[list[dict[str, Any]]] = []
    read = opening.open_attributed

    def looking(*arguments: Any, **options: Any) -> Any:
        seen.append(client.get("/api/working").json())
        return read(*arguments, **options)

    monkeypatch.setattr(opening, "open_attributed", looking)
    assert client.get(f"/api/profile/{entry.id}").status_code == 200
    assert [(one["id"], one["stage"]) for one in seen[0]] == [(entry.id, "reading the file")]
    assert client.get("/api/working").json() == []
