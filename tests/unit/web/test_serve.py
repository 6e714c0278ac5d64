"""`solscope serve` as a command: what it says when it cannot, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.web.answer_cache import DiskCache
from solscope.web.library import Library
from solscope.web.serve import listen, what_is_shown

ROOT = Path(__file__).parents[3]


@contextmanager
def serving(*words: str, cache: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "solscope", "serve", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "SOLSCOPE_CACHE_DIR": str(cache),
            "SOLSCOPE_NO_CACHE": "",
        },
    )
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline().split()[-1]
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_it_ends_cleanly(tmp_path: Path) -> None:
    with serving("demo:vllm-b200", cache=tmp_path) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/overview") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0
        assert out == ""
        assert "Traceback" not in err


def test_the_start_says_what_is_shown(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    results.write_text("")
    both = Library(["demo:vllm-b200", str(results)], DiskCache(tmp_path / "kept"))
    assert what_is_shown(both) == "1 profile, benchmark results"
    assert what_is_shown(Library([], DiskCache(tmp_path / "kept"))) == "0 profiles"


def test_it_ends_while_a_profile_is_coming_in(tmp_path: Path) -> None:
    folder = tmp_path / "dropped"
    with serving("--upload", str(folder), cache=tmp_path) as (process, address):
        port = int(address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(
                b"POST /api/upload?name=a.json HTTP/1.1\r\nHost: localhost\r\nX-Solscope: 1\r\n"
                b"Content-Length: 1000000\r\n\r\n" + 1000 * b"x"
            )
            while not list(folder.glob(".a.json*/a.json")):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=300)
        assert process.returncode == 0
        assert err in ("", "solscope: press Ctrl-C to stop\n")  # it may be read with the address
        assert list(folder.iterdir()) == []


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving is a failure."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it serves")

    monkeypatch.setattr("uvicorn.Server.run", refuse)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("source", ["no/such/file.json", "no/such.jsonl", "demo:none", "no/*.json"])
def test_a_source_that_is_not_there(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", source, "--port", "0"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert source in line


@pytest.mark.usefixtures("never")
def test_a_source_that_is_no_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("buy milk")
    assert run(["serve", str(tmp_path / "notes.txt"), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "notes.txt" in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("never")
def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", "demo:vllm-b200", "--port", port]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--port 0" in line


def test_without_the_extra_the_hint_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", "demo:vllm-b200"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "pip install 'solscope[web]'" in line
    assert "uvicorn" in line
