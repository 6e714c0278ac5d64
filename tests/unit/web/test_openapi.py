"""Every status that the server can send is in the description of its API."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

import solscope.web
from solscope.web.api import ENDPOINTS
from solscope.web.app import Uploads, create_app
from solscope.web.library import Library
from solscope.web.openapi import openapi

DEMO = "demo:vllm-b200"
OWN = {"x-solscope": "1"}


def sent_by(module: Path) -> Iterator[str]:
    """Status codes that are written out where a module makes a response."""
    for call in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id.endswith("Response") or call.func.id == "_error":
            given = [*call.args[1:], *(one.value for one in call.keywords)]
            for part in (part for one in given for part in ast.walk(one)):
                if isinstance(part, ast.Constant) and type(part.value) is int:
                    yield str(part.value)


def test_every_status_is_described() -> None:
    modules = Path(next(iter(solscope.web.__path__))).glob("*.py")
    sent = {status for module in modules for status in sent_by(module)}
    paths = openapi(ENDPOINTS, takes_uploads=True)["paths"].values()
    described = {
        status for path in paths for operation in path.values() for status in operation["responses"]
    }
    assert sent == described - {"200"}


def check(client: TestClient, method: str, path: str, **asked: Any) -> int:
    """The status of an answer that is as described."""
    answer = client.request(method, path, follow_redirects=False, **asked)
    described = openapi(ENDPOINTS, takes_uploads=True)["paths"][path.partition("?")[0]]
    response = described[method.lower()]["responses"][str(answer.status_code)]
    media = [answer.headers["content-type"].partition(";")[0]] if answer.content else []
    assert media == list(response.get("content", {}))
    return answer.status_code


def serving(folder: Path, **how: Any) -> TestClient:
    app = create_app(Library([DEMO]), uploads=Uploads(folder, 1000), **how)
    return TestClient(app, base_url="http://localhost")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/overview", {}, 200),
        ("/api/bench", {}, 404),
        ("/api/compare", {}, 422),
        ("/api/overview", {"host": "elsewhere"}, 421),
    ],
)
def test_questions_are_answered_as_described(
    tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    assert check(serving(tmp_path), "GET", path, headers=headers) == status


@pytest.mark.parametrize(("token", "status"), [("", 401), ("?token=secret", 303)])
def test_whoever_lacks_the_cookie_is_answered_as_described(
    tmp_path: Path, token: str, status: int
) -> None:
    client = serving(tmp_path, token="secret")
    assert check(client, "GET", f"/api/overview{token}") == status
    assert check(client, "POST", f"/api/upload{token}", headers=OWN) == status


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        (OWN, b'{"traceEvents": []}', 201),
        ({}, b"", 403),
        (OWN, b"x" * 1001, 413),
        (OWN, b"no profile", 422),
    ],
)
def test_uploads_are_answered_as_described(
    tmp_path: Path, headers: dict[str, str], content: bytes, status: int
) -> None:
    client = serving(tmp_path)
    asked = {"headers": headers, "content": content}
    assert check(client, "POST", "/api/upload?name=a.json", **asked) == status


@pytest.mark.parametrize(
    ("error", "status"),
    [(ClientDisconnect(), 400), (OSError(28, "No space left"), 507), (ValueError("what"), 500)],
    ids=["broken off", "full", "unforeseen"],
)
def test_uploads_that_go_wrong_are_answered_as_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    async def take_upload(*_: object) -> None:
        raise error

    monkeypatch.setattr("solscope.web.app.take_upload", take_upload)
    asked = {"headers": OWN, "content": b"{}"}
    assert check(serving(tmp_path), "POST", "/api/upload?name=a.json", **asked) == status
