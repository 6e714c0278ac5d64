"""A store at a local S3 server: the same answers and promises, and errors that name the cause."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.corpus import commits
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.repair import repair
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import create_corpus, open_corpus
from tests.s3_server import (
    NoServerError,
    create_bucket,
    require_accounts,
    s3_server,
    server_python,
    settings,
)
from tests.unit.corpus.traces import write_trace

pytestmark = pytest.mark.long
BUCKET = "profiles"
LONGEST_S = 60
"""Until an error is named, on a busy machine; seconds on a quiet one."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        server_python()
    except NoServerError as error:
        pytest.skip(str(error))
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        create_bucket(address, BUCKET)
        yield address


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A place for a store of its own, in a bucket that exists."""
    for name, value in settings(server).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


def traces(folder: Path, count: int) -> list[str]:
    return [str(write_trace(folder / f"t{at}.json", gemm_us=20 + at)) for at in range(count)]


def test_a_store_at_a_bucket_is_like_one_in_a_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "COMPACT_FROM", 3)
    there, here = create_corpus(url), create_corpus(tmp_path / "store")
    for path in traces(tmp_path, 4):
        for corpus in (there, here):
            corpus.append([extract(path)])
    assert importance(there) == importance(here)
    compact(there)
    assert len(there.files("times")) == 1
    gone = [here.profiles()["id"][0]]
    assert there.remove(gone) == here.remove(gone)
    assert importance(open_corpus(url)) == importance(here)
    checked = verify(there)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)


def test_logs_that_were_rolled_back_together_are_found(
    url: str, server: str, tmp_path: Path
) -> None:
    corpus = create_corpus(url)
    for path in traces(tmp_path, 3):
        corpus.append([extract(path)])
    for name in ("times", "steps", "profiles", "batches"):
        log = f"{server}/{url.removeprefix('s3://')}/{name}/_delta_log/{3:020}.json"
        # The server looks for a name, not at what it signs.
        account = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/1/us-east-1/s3/aws4_request"}
        asked = urllib.request.Request(log, headers=account, method="DELETE")
        with urllib.request.urlopen(asked, timeout=LONGEST_S):
            pass
    (problem,) = verify(corpus).problems
    assert problem.where == "batch 3"
    assert repair(corpus, accept=True).accepted_loss == 1
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches, checked.profiles) == ([], 0, 2)


WRITER = textwrap.dedent(
    """
    import sys
    from solscope.corpus.ingest.extract import extract
    from solscope.corpus.maintenance.compaction import compact
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for path in sys.argv[3:]:
        corpus.append([extract(path)])
    if sys.argv[2]:
        compact(corpus)
    """
)


@pytest.mark.parametrize("writers", [2, 4, 8])
def test_writers_at_once_lose_and_double_nothing(url: str, tmp_path: Path, writers: int) -> None:
    """Each adds a profile of its own and one that all have, and two compact.

    `benchmarks/store_trials.py` does this a hundred times.
    """
    corpus = create_corpus(url)
    paths = traces(tmp_path, writers + 1)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, "compact" if at < 2 else "", path, paths[-1]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        for at, path in enumerate(paths[:-1])
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * writers
    assert sorted(corpus.raw("profiles").collect()["file"].to_list()) == sorted(paths)
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)


def said(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of an error, which must come soon."""
    start = time.monotonic()
    assert run(command) == 2
    assert time.monotonic() - start < LONGEST_S
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "\x1b" not in error
    assert "\\u{1b}" not in error
    return error


@pytest.mark.usefixtures("url")
def test_a_missing_bucket_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the bucket does not exist" in said(["corpus", "init", "s3://nowhere/store"], capsys)
    assert "the bucket does not exist" in said(["corpus", "status", "s3://nowhere/store"], capsys)


def test_an_endpoint_that_does_not_answer_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "the endpoint cannot be reached" in said(["corpus", "status", url], capsys)
    assert "the endpoint cannot be reached" in said(["corpus", "init", url], capsys)


def test_wrong_and_missing_credentials_are_named(
    url: str, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create_corpus(url)
    require_accounts(server, required=True)
    try:
        assert "the credentials are wrong" in said(["corpus", "status", url], capsys)
        assert "the credentials are wrong" in said(["corpus", "add", url, "demo:vllm-b200"], capsys)
    finally:
        require_accounts(server, required=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no credentials" in said(["corpus", "status", url], capsys)


def test_plain_http_must_be_asked_for(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "AWS_ALLOW_HTTP" in said(["corpus", "status", url], capsys)
