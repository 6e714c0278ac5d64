"""Configs of models, for costs where a profile has no shapes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from solscope.errors import InputError, LimitError, UsageError
from solscope.web.app import create_app
from solscope.web.library import Library
from solscope.web.models import (
    MAX_CONFIG_BYTES,
    MAX_GIVEN,
    MAX_HELD_BYTES,
    Models,
    find_configs,
    read_config,
)
from tests.model_config import CONFIG

GRAPH = "demo:vllm-mi300x-graph"
OWN = {"x-solscope": "1"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(Library([GRAPH])), base_url="http://localhost")


def give(client: TestClient, data: bytes, name: str = "config.json") -> tuple[int, dict[str, str]]:
    answer = client.post("/api/model", params={"name": name}, content=data, headers=OWN)
    return answer.status_code, answer.json()


def test_a_config_gives_costs_to_kernels_without_shapes(client: TestClient) -> None:
    overview = client.get("/api/overview").json()
    assert overview["models"] == []
    place = f"/api/profile/{overview['profiles'][0]['id']}"
    before = client.get(place).json()
    status, entry = give(client, CONFIG, "../gpt oss.json")
    assert (status, entry["label"]) == (201, "gpt_oss.json")
    assert client.get("/api/overview").json()["models"] == [entry]
    after = client.get(place, params={"model": entry["id"]}).json()
    assert before["model"] is None
    assert after["model"] == {"name": "gpt_oss.json", "warnings": []}
    assert before["hotspots"]["coverage"]["cost_pct"] < 10
    assert after["hotspots"]["coverage"]["cost_pct"] > 90


def test_a_config_that_contradicts_the_recording_is_named(client: TestClient) -> None:
    other = {**json.loads(CONFIG), "num_hidden_layers": 36}
    _, entry = give(client, json.dumps(other).encode())
    profile = client.get("/api/overview").json()["profiles"][0]["id"]
    page = client.get(f"/api/profile/{profile}", params={"model": entry["id"]}).json()
    assert [one["code"] for one in page["model"]["warnings"]] == ["model_differs"]


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (b"[1]", 422, "config.json: not a model's config"),
        (b"{}", 422, "config.json: not a model's config: it has no hidden_size"),
        (b'{"hidden_size": "\xff"}', 422, "not a model's config"),
        (b'{"a":' * 100_000, 422, "not a model's config"),
        (b" " * (MAX_CONFIG_BYTES + 1), 413, "too large for a model's config"),
    ],
    ids=["no object", "no size", "no text", "too deep", "too large"],
)
def test_what_is_no_config_is_refused_in_one_line(
    client: TestClient, data: bytes, status: int, why: str
) -> None:
    got, answer = give(client, data)
    assert (got, len(answer["error"].splitlines())) == (status, 1)
    assert why in answer["error"]


def test_giving_a_config_needs_our_header(client: TestClient) -> None:
    assert client.post("/api/model?name=a.json", content=CONFIG).status_code == 403


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("model=/etc/passwd", "no longer here"),
        ("model=../config.json", "no longer here"),
        ("batch=4", "need a model's config"),
        ("model=abc&batch=0", "'0' is not a number from 1"),
        ("model=abc&context=1e9", "'1e9' is not a number"),
        ("model=abc&context=99999999999999999999", "is not a number"),
    ],
)
def test_a_question_about_no_config_says_so(client: TestClient, query: str, why: str) -> None:
    profile = client.get("/api/overview").json()["profiles"][0]["id"]
    answer = client.get(f"/api/profile/{profile}?{query}")
    assert answer.status_code == 422
    assert why in answer.json()["error"]


def test_configs_in_served_folders_are_offered(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    (tmp_path / "notes.json").write_text('{"note": 1}')
    config = tmp_path / "some-model.json"
    config.write_bytes(CONFIG)
    library = Library([str(tmp_path)])
    (entry,) = library.models.entries
    assert entry.label == "some-model"
    model = library.models.chosen({"model": entry.id, "batch": "3"})
    assert model is not None
    assert (model.name, model.batch, model.config.hidden_size) == ("some-model.json", 3, 2880)
    before = library.models.state(entry.id)
    config.write_bytes(b"{}")
    assert library.models.state(entry.id) != before
    with pytest.raises(InputError, match="no hidden_size"):
        library.models.chosen({"model": entry.id})


def test_what_is_too_large_gone_or_no_file_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(CONFIG + b" " * MAX_CONFIG_BYTES)
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.json").mkdir()
    assert find_configs([str(tmp_path), "demo:qwen-h100"], []) == []


def test_the_oldest_given_config_is_dropped() -> None:
    models = Models()
    entries = [models.give("c.json", CONFIG + b" " * more) for more in range(MAX_GIVEN + 1)]
    assert models.entries == entries[1:]
    with pytest.raises(InputError, match="choose it again"):
        models.chosen({"model": entries[0].id})


def with_fields(**fields: object) -> bytes:
    return json.dumps({**json.loads(CONFIG), **fields}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"quantization_config": {"quant_method": "mxfp4", "scales": [[]] * 300_000}},
        {"layer_types": ["ab"] * 20_000},
    ],
    ids=["unread", "read"],
)
def test_a_given_config_is_held_in_little_memory(fields: dict[str, object]) -> None:
    data, models = with_fields(**fields), Models()
    assert len(data) <= MAX_CONFIG_BYTES
    models.give("c.json", CONFIG)  # Loads what has to be loaded.
    tracemalloc.start()
    try:
        entry = models.give("large.json", data)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < MAX_HELD_BYTES + 50_000
    model = models.chosen({"model": entry.id})
    assert model is not None
    assert model.config.quantization_config is not None
    assert model.config.quantization_config["quant_method"] == "mxfp4"


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_types": ["ab"] * 50_000},
        {"quantization_config": {"modules_to_not_convert": [[]] * 50_000}},
    ],
    ids=["layers", "modules"],
)
def test_a_config_with_too_much_that_counts_is_refused(
    client: TestClient, fields: dict[str, object]
) -> None:
    status, answer = give(client, with_fields(**fields))
    assert (status, len(answer["error"].splitlines())) == (413, 1)
    assert "in the fields that costs depend on" in answer["error"]


def test_a_config_keeps_its_name_when_it_is_given_under_another(client: TestClient) -> None:
    data = CONFIG + b" "
    (_, mine), (_, other) = give(client, data, "mine.json"), give(client, data, "other.json")
    assert mine["id"] != other["id"]
    offered = client.get("/api/overview").json()["models"]
    assert mine in offered
    assert other in offered
    profile = client.get("/api/overview").json()["profiles"][0]["id"]
    for entry in (mine, other):
        page = client.get(f"/api/profile/{profile}", params={"model": entry["id"]}).json()
        assert page["model"]["name"] == entry["label"]


def test_reading_ends_at_the_limit() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 65536

    with pytest.raises(LimitError, match="too large"):
        read_config(endless()).send(None)


def test_counts_without_a_config_are_refused() -> None:
    with pytest.raises(UsageError, match="need a model's config"):
        Models().chosen({"context": "5"})
