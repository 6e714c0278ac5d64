"""The dashboard where others reach it: tokens, proxies, TLS, limits, and what is written down."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from solscope.cli import run
from solscope.errors import UsageError
from solscope.web import connections
from solscope.web.app import Uploads, create_app
from solscope.web.audit import Audit
from solscope.web.connections import BodyDeadline, connection_limit
from solscope.web.guard import COOKIE, HEADERS
from solscope.web.handlers.suite import _hardware
from solscope.web.library import Library
from solscope.web.serve import TOKEN_VARIABLE, Exposure, _server, address_of, chosen_token, listen
from solscope.web.upload import uploading_to

DEMO = "demo:vllm-mi300x-graph"
TOKEN = "a-token-that-is-long-enough"
CHANGE = {"x-solscope": "1", "host": "localhost"}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library([DEMO])


def client(library: Library, base: str = "http://localhost", **options: Any) -> TestClient:
    return TestClient(create_app(library, **options), base_url=base)


# Headers and origins


@pytest.mark.parametrize("path", ["/", "/api/overview", "/api/none", "/favicon.ico", "/no/view"])
def test_every_answer_has_the_security_headers(library: Library, path: str) -> None:
    answer = client(library).get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "strict-transport-security" not in answer.headers
    assert "server" not in answer.headers


def test_refusals_have_them_too(library: Library) -> None:
    foreign = client(library, "http://evil.example").get("/")
    assert foreign.status_code == 421
    assert foreign.headers["x-frame-options"] == "DENY"


def test_over_tls_the_browser_stays_there_and_the_cookie_too(library: Library) -> None:
    answer = client(library, "https://localhost", token=TOKEN).get(
        f"/?token={TOKEN}", follow_redirects=False
    )
    assert "max-age" in answer.headers["strict-transport-security"]
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict", COOKIE))
    plain = client(library, token=TOKEN).get(f"/?token={TOKEN}", follow_redirects=False)
    assert "Secure" not in plain.headers["set-cookie"]


@pytest.mark.parametrize("origin", ["http://[bad", "http://evil.example", "null", "//", "http://]"])
def test_a_damaged_or_foreign_origin_changes_nothing(
    library: Library, origin: str, tmp_path: Path
) -> None:
    asked = client(library, uploads=Uploads(tmp_path, 1000))
    answer = asked.post("/api/upload?name=a.json", headers={**CHANGE, "origin": origin})
    assert answer.status_code == 403


# Tokens


def test_a_token_on_loopback_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert chosen_token("127.0.0.1", Exposure()) is None
    made = chosen_token("127.0.0.1", Exposure(token=True))
    assert made is not None
    assert len(made) >= 32
    assert made != chosen_token("0.0.0.0", Exposure())


def test_a_fixed_token_is_taken_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert chosen_token("127.0.0.1", Exposure(token_file=file)) == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, "another-token-0123456789")
    assert chosen_token("127.0.0.1", Exposure()) == "another-token-0123456789"
    assert chosen_token("127.0.0.1", Exposure(token_file=file)) == TOKEN


@pytest.mark.parametrize("content", [b"", b"short", b"has a space in the middle", b"\xff" * 20])
def test_a_token_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="token"):
        chosen_token("127.0.0.1", Exposure(token_file=file))
    with pytest.raises(UsageError, match="no token can be read"):
        chosen_token("127.0.0.1", Exposure(token_file=tmp_path / "none"))


def test_only_a_new_token_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener, Exposure(), None) == f"http://127.0.0.1:{port}/"
        assert address_of(listener, Exposure(token=True), "x").endswith("/?token=x")
        fixed = Exposure(token_file=tmp_path / "t", certificate=tmp_path / "c", root_path="/perf")
        assert address_of(listener, fixed, TOKEN) == f"https://127.0.0.1:{port}/perf/"


# Proxies


def test_behind_a_proxy_the_prefix_and_the_client_are_known(library: Library) -> None:
    lines: list[str] = []
    exposure = Exposure(root_path="/perf", trusted_proxies=("testclient",))
    app = _server(Audit(create_app(library, token=TOKEN), lines.append), exposure).config.loaded_app
    asked = TestClient(app, base_url="http://gpu.example", root_path="/perf")
    forwarded = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    answer = asked.get(f"/perf/?token={TOKEN}", headers=forwarded, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/perf/"
    assert "Path=/perf" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"]
    assert json.loads(lines[0])["client"] == "203.0.113.9"
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert asked.get("/perf/api/overview", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/perf/", 200), ("/perf/perf/suite", 200), ("/perf/perf", 200), ("/perf/nothing", 404)],
)
def test_pages_below_a_path_know_it_whether_the_proxy_takes_it_off_or_not(
    library: Library, path: str, status: int
) -> None:
    app = _server(create_app(library), Exposure(root_path="/perf")).config.loaded_app
    # The server puts the prefix before what it is asked for.
    answer = TestClient(app, base_url="http://localhost", root_path="/perf").get(path)
    assert answer.status_code == status
    assert 'data-root="/perf"' in answer.text


@pytest.mark.parametrize("path", ["suite", "/api/dash", "/a b"])
def test_a_path_that_is_a_page_or_odd_is_refused(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--root-path", path]) == 2
    assert "--root-path" in capsys.readouterr().err


def test_headers_of_others_are_not_believed(library: Library) -> None:
    lines: list[str] = []
    app = _server(Audit(create_app(library), lines.append), Exposure()).config.loaded_app
    TestClient(app, base_url="http://localhost").get("/", headers={"x-forwarded-for": "1.2.3.4"})
    assert json.loads(lines[0])["client"] == "testclient"


# Audit


def test_a_line_per_request_without_secrets(library: Library) -> None:
    lines: list[str] = []
    asked = TestClient(
        Audit(create_app(library, token=TOKEN), lines.append), base_url="http://localhost"
    )
    asked.get("/api/overview")
    asked.get(f"/?token={TOKEN}")
    asked.get("/api/overview", headers={"authorization": f"Bearer {TOKEN}"})
    assert [json.loads(line)["status"] for line in lines] == [401, 303, 200, 200]
    assert TOKEN not in "".join(lines)
    last = json.loads(lines[-1])
    assert (last["method"], last["path"]) == ("GET", "/api/overview")
    assert last["bytes"] > 0
    assert last["ms"] >= 0


# Limits


def test_many_gpus_in_one_question_are_one() -> None:
    assert _hardware({"hardware": "H100," * 1000 + "H200"}) == ["H100", "H200"]
    with pytest.raises(UsageError, match="at most 32"):
        _hardware({"hardware": ",".join(f"X{n}" for n in range(40))})


def test_uploads_have_a_quota(library: Library, tmp_path: Path) -> None:
    asked = client(library, uploads=Uploads(tmp_path, 1000, quota_bytes=30))
    trace = b'{"traceEvents": []}'
    assert asked.post("/api/upload?name=a.json", content=trace, headers=CHANGE).status_code == 201
    assert asked.post("/api/upload?name=b.json", content=trace, headers=CHANGE).status_code == 413
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    (tmp_path / "a.json").unlink()
    assert asked.post("/api/upload?name=b.json", content=trace, headers=CHANGE).status_code == 201


def test_what_a_kill_left_of_an_upload_is_removed(tmp_path: Path) -> None:
    left, other = tmp_path / ".a.json.k2x_81ab", tmp_path / ".git"
    for folder in (left, other):
        folder.mkdir()
        (folder / "a.json").write_bytes(b"half")
    with uploading_to(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".git"]
        left.mkdir()
        with uploading_to(tmp_path):  # Another server: what is coming in there is not ours.
            assert left.is_dir()


def test_connections_leave_files_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (80, 80))
    assert connection_limit() == 40
    monkeypatch.setattr("resource.getrlimit", lambda _: (1 << 20, 1 << 20))
    assert connection_limit() == connections.MAX_CONNECTIONS


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.05)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()

    async def ask() -> None:
        send: Any = never
        await BodyDeadline(app)({"type": "http"}, never, send)

    with pytest.raises(ClientDisconnect):
        asyncio.run(ask())


SERVER = """
import sys
from solscope.web import connections, serve
connections.HEADER_SECONDS = 0.5
import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
serve.serve([sys.argv[1]], "127.0.0.1", 0, lambda line: print(line, flush=True))
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server in a process that may open 80 files, with short timeouts."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, DEMO], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


def status(port: int) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as asked:
        asked.sendall(b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return asked.recv(12)


def test_half_requests_do_not_stop_the_answers(port: int) -> None:
    half = [socket.create_connection(("127.0.0.1", port)) for _ in range(90)]
    for connection in half:
        connection.sendall(b"GET / HTTP/1.1\r\nHost:")
    deadline = time.monotonic() + 60
    answer = b""
    while answer != b"HTTP/1.1 200" and time.monotonic() < deadline:
        try:
            answer = status(port)
        except OSError:
            time.sleep(0.1)
    assert answer == b"HTTP/1.1 200"
    for connection in half:
        connection.settimeout(60)
        with suppress(OSError):
            assert connection.recv(1) == b""
        connection.close()


def test_a_long_address_is_refused(port: int) -> None:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as asked:
        asked.sendall(b"GET /api/suite?hardware=" + b"H100," * 10_000 + b" HTTP/1.1\r\n")
        assert asked.recv(12) == b"HTTP/1.1 400"


def test_a_certificate_that_is_none_is_one_line(tmp_path: Path, library: Library) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    wrong = Exposure(certificate=tmp_path / "c.pem", key=tmp_path / "c.pem")
    with pytest.raises(UsageError, match="no certificate and key"):
        _server(create_app(library), wrong)


def test_tls(tmp_path: Path, library: Library) -> None:
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=localhost", "-keyout", tmp_path / "k.pem", "-out", tmp_path / "c.pem"],
        capture_output=True, check=False,
    ) if ssl.OPENSSL_VERSION else None  # fmt: skip
    if made is None or made.returncode:
        pytest.skip("openssl is not installed")
    server = _server(
        create_app(library), Exposure(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    )
    assert server.config.is_ssl
    assert server.config.ssl is not None
    assert server.config.ssl.minimum_version >= ssl.TLSVersion.TLSv1_2
