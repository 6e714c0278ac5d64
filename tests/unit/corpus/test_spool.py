"""A spool folder: every complete file is added exactly once, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.corpus import spool as spooling
from solscope.corpus.ingest.engines.base import NO_LIMITS
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.spool import SpoolOptions, SpoolResult, ready, spool
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, UsageError
from tests.unit.corpus.traces import write_trace

OPTIONS = SpoolOptions(ExtractOptions(), NO_LIMITS, workers=1)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return create_corpus(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "spool"
    made.mkdir()
    return made


def drop(folder: Path, name: str, number: int) -> Path:
    """As another machine does: under a hidden name, then renamed."""
    work = write_trace(folder / f".{name}.part", gemm_us=20 + number)
    return work.rename(folder / name)


def empty(corpus: Corpus, folder: Path, options: SpoolOptions = OPTIONS) -> SpoolResult:
    return spool(corpus, folder, options)


def left(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(folder)) for path in files if path.name != ".spool.lock")


def test_complete_files_are_added_and_leave(corpus: Corpus, folder: Path) -> None:
    drop(folder, "a.json", 1)
    (folder / "host7").mkdir()
    drop(folder / "host7", "b.json", 2)
    (folder / "host7" / "b.solscope.json").write_text('{"team": "search"}')
    (folder / ".half.json.part").write_text("{")
    result = empty(corpus, folder)
    assert (result.added, result.skipped, result.failed) == (2, 0, [])
    assert left(folder) == [".half.json.part"]
    assert sorted(corpus.profiles()["tags"].to_list()) == ['{"team":"search"}', "{}"]
    assert verify(corpus).ok


def test_bad_files_are_set_aside_with_the_reason(corpus: Corpus, folder: Path) -> None:
    (folder / "notes.txt").write_text("no profile")
    (folder / "bad.json").write_text('{"traceEvents": 7}')
    drop(folder, "good.json", 1)
    result = empty(corpus, folder)
    assert (result.added, len(result.failed)) == (1, 2)
    assert left(folder) == [
        "failed/bad.json",
        "failed/bad.json.reason.txt",
        "failed/notes.txt",
        "failed/notes.txt.reason.txt",
    ]
    assert (folder / "failed" / "notes.txt.reason.txt").read_text().strip()
    (folder / "notes.txt").write_text("again")
    empty(corpus, folder)
    assert (folder / "failed" / "2-notes.txt").exists()


def test_a_file_whose_commit_was_not_followed_by_its_removal_is_added_once(
    corpus: Corpus, folder: Path, tmp_path: Path
) -> None:
    """As when the process is killed between both."""
    file = drop(folder, "a.json", 1)
    again = shutil.copy(file, tmp_path / "again.json")
    empty(corpus, folder)
    shutil.move(again, folder / "a.json")
    result = empty(corpus, folder)
    assert (result.added, result.skipped) == (0, 1)
    assert left(folder) == []
    assert corpus.profiles().height == 1


def test_a_file_stays_when_its_commit_fails(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(folder, "a.json", 1)

    def fails(*_: object) -> None:
        raise InputError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "append", fails)
        with pytest.raises(InputError, match="disk is full"):
            empty(corpus, folder)
    assert left(folder) == ["a.json"]
    assert empty(corpus, folder).added == 1


def test_added_files_can_be_kept(corpus: Corpus, folder: Path, tmp_path: Path) -> None:
    (folder / "host7").mkdir()
    drop(folder / "host7", "a.json", 1)
    empty(corpus, folder, OPTIONS._replace(keep=tmp_path / "kept"))
    assert left(folder) == []
    assert left(tmp_path / "kept") == ["host7/a.json"]


@pytest.mark.long
def test_the_store_is_compacted_by_the_way(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "AT_ONCE", 1)
    monkeypatch.setattr(spooling, "COMPACT_AT", 2)
    monkeypatch.setattr("solscope.corpus.commits.COMPACT_FROM", 2)
    for number in range(4):
        drop(folder, f"{number}.json", number)
    assert empty(corpus, folder).compactions == 3
    assert len(corpus.files("times")) == 1
    assert verify(corpus).ok


def test_only_one_process_empties_a_folder(corpus: Corpus, folder: Path) -> None:
    with spooling._only_one(folder), pytest.raises(InputError, match="another process adds"):
        empty(corpus, folder)
    with pytest.raises(UsageError, match="not a folder"):
        empty(corpus, folder / "nothing")


def test_files_are_listed_in_order_without_what_belongs_to_others(folder: Path) -> None:
    for name in ("b.json", "a.json", "a.solscope.json", "a.metrics.csv", ".c.json"):
        (folder / name).touch()
    (folder / "failed").mkdir()
    (folder / "failed" / "d.json").touch()
    assert [path.name for path in ready(folder)] == ["a.json", "b.json"]


def test_a_recording_that_takes_the_name_of_another_is_read_as_well(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(folder, "a.json", 1)
    settle = spooling._Run._settle
    dropped: list[Path] = []

    def late(self: spooling._Run, path: str, state: str, reason: str | None, size: int) -> None:
        if not dropped and state != "read":
            dropped.append(drop(folder, "a.json", 2))
        settle(self, path, state, reason, size)

    monkeypatch.setattr(spooling._Run, "_settle", late)
    assert empty(corpus, folder).added == 2
    assert left(folder) == []


def test_files_to_keep_do_not_go_back_into_the_folder(corpus: Corpus, folder: Path) -> None:
    options = SpoolOptions(ExtractOptions(), NO_LIMITS, workers=1, keep=folder / "done")
    with pytest.raises(UsageError, match="lies in the spool folder"):
        empty(corpus, folder, options)


def test_on_the_command_line(
    corpus: Corpus, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drop(folder, "a.json", 1)
    (folder / "bad.json").write_text("{")
    assert run(["corpus", "spool", corpus.url, str(folder), "--once", "--workers", "1"]) == 1
    printed = capsys.readouterr().out
    assert "added 1, skipped 0 (known content), set aside 1" in printed
    assert "bad.json" in printed


KILLED = """
import sys
from pathlib import Path
from solscope.corpus import spool
from solscope.corpus.ingest import add, extract
from solscope.corpus.ingest.engines.base import NO_LIMITS
from solscope.corpus.store import open_corpus

if __name__ == "__main__":
    add.BATCH_PROFILES = 2
    options = spool.SpoolOptions(extract.ExtractOptions(), NO_LIMITS, workers=1)
    print("ready", flush=True)
    report = lambda *_: print("settled", flush=True)
    spool.spool(open_corpus(sys.argv[1]), Path(sys.argv[2]), options, report)
"""


@pytest.mark.long
def test_killed_again_and_again_each_file_is_added_once(
    corpus: Corpus, folder: Path, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    for number in range(40):
        drop(folder, f"{number}.json", number)
    for kills in range(15):
        process = subprocess.Popen(
            [sys.executable, str(script), corpus.url, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        for _ in range(1 + kills % 3):
            process.stdout.readline()
        time.sleep(0.003 * kills)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        checked = verify(corpus)
        assert checked.problems == []
    result = empty(corpus, folder)
    assert result.failed == []
    assert left(folder) == []
    assert corpus.raw("profiles").collect().height == corpus.profiles().height == 40
    assert verify(corpus).ok
