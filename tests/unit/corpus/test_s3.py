"""A store at a local S3 server: the same answers and promises, and errors that name the cause."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.corpus import commits
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

pytestmark = pytest.mark.long
BUCKET = "profiles"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    running = moto.ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A place for a store of its own, in a bucket that exists."""
    boto3 = pytest.importorskip("boto3")
    settings = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=server, region_name="us-east-1").create_bucket(Bucket=BUCKET)
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


WRITER = textwrap.dedent(
    """
    import sys
    from solscope.corpus.ingest.extract import extract
    from solscope.corpus.maintenance.compaction import compact
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for path in sys.argv[2:]:
        corpus.append([extract(path)])
    compact(corpus)
    """
)


def test_writers_at_once_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    corpus = create_corpus(url)
    paths = traces(tmp_path, 9)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, *paths[at : at + 3], paths[8]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        for at in (0, 3, 5)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n")
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(corpus.raw("profiles").collect()["file"].to_list()) == sorted(paths)
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)


def said(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(command) == 2
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
    monkeypatch.setenv("AWS_MAX_RETRIES", "0")
    assert "the endpoint cannot be reached" in said(["corpus", "status", url], capsys)
