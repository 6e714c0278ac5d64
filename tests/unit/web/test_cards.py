"""The list of profiles: what it says about each, and which files it finds."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import solscope
from solscope import attribute
from solscope.web.answer_cache import DiskCache
from solscope.web.app import create_app
from solscope.web.cards import MAX_SPARK, Cards, card_of
from solscope.web.library import Library
from solscope.web.sources import find_sources
from solscope.web.warm_up import make_cards

TRACE = "tests/data/kineto_b200.json.gz"


def test_a_card_says_what_show_says() -> None:
    profile = attribute(solscope.open("demo:vllm-b200"))
    card, summary = card_of(profile), solscope.summarize(profile)
    assert (card.gpu, card.framework) == ("B200", "vllm")
    assert card.sentence == summary.verdict.sentence
    assert card.step_ms == summary.steps.phases[0].p50_ms
    assert len(card.spark_ms) <= MAX_SPARK
    assert card.recorded_ns is None or card.recorded_ns > 0


def test_cards_are_made_once_and_again_when_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TRACE, tmp_path / "a.json.gz")
    (tmp_path / "b.json").write_text('{"traceEvents": [')
    disk_cache = DiskCache(tmp_path / ".cache")
    library = Library([str(tmp_path)], disk_cache)
    monkeypatch.setattr(library.idle, "wait", lambda *_: None)
    client = TestClient(create_app(library), base_url="http://localhost")
    profiles = client.get("/api/overview").json()["profiles"]
    assert [one["card"] for one in profiles] == [None, None]
    make_cards(library)
    cards = [one["card"] for one in client.get("/api/overview").json()["profiles"]]
    assert cards[0]["finding"]
    assert library.without_card() is None
    again = Cards(disk_cache)
    assert again.get(str(tmp_path / "a.json.gz")) is not None
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    assert again.get(str(tmp_path / "a.json.gz")) is None
    assert library.without_card() == str(tmp_path / "a.json.gz")


def test_folders_are_searched_however_deep(tmp_path: Path) -> None:
    places = ["a.json", "deep/down/b.json", "rank0/c.json", ".hidden/d.json"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text('{"traceEvents": []}')
    (tmp_path / "deep" / "broken.json.gz").write_bytes(b"\x1f\x8bno gzip at all")
    disk_cache = DiskCache(tmp_path / ".cache")
    found = find_sources([str(tmp_path)], disk_cache)
    assert sorted(found.paths) == sorted(str(tmp_path / one) for one in places[:3])
    ((folder, why),) = found.skipped
    assert folder == str(tmp_path / "deep")
    assert "broken.json.gz" in why
    library = Library([str(tmp_path)], disk_cache)
    (tmp_path / "deep" / "new").mkdir()
    (tmp_path / "deep" / "new" / "e.json").write_text('{"traceEvents": []}')
    library.look_again()
    assert len(library.entries) == 4


def test_a_profile_is_downloaded_for_perfetto() -> None:
    library = Library([TRACE])
    (entry,) = library.entries
    client = TestClient(create_app(library), base_url="http://localhost")
    answer = client.get(f"/profile/{entry.id}/perfetto.json.gz")
    assert answer.status_code == 200
    assert ".perfetto.json.gz" in answer.headers["content-disposition"]
    data = answer.content
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    assert len(json.loads(text)["traceEvents"]) > 1_000
    assert client.get("/profile/nothing/perfetto.json.gz").status_code == 404


def test_ranks_of_one_run_are_shown_and_others_are_refused() -> None:
    library = Library(["demo:ranks", "demo:vllm-b200"])
    client = TestClient(create_app(library), base_url="http://localhost")
    ranks = [one.id for one in library.entries if "b200" not in one.path]
    page = client.get("/api/ranks", params={"of": ",".join(ranks)}).json()
    assert "wait for rank 2" in page["headline"]["sentence"]
    assert len(page["lanes"]["lanes"]) == len(ranks)
    others = client.get("/api/ranks", params={"of": library.entries[-1].id})
    assert (others.status_code, "not the ranks" in others.json()["error"]) == (422, True)
