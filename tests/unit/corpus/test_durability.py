"""kill -9 at random moments, and two writers at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

WRITER = """
import sys
from solscope.corpus import delta
from solscope.corpus.ingest import add, extract
from solscope.corpus.queries import importance
from solscope.corpus.store import open_corpus

def report(path, state, reason, total):
    print(state, path, flush=True)

if __name__ == "__main__":
    add.BATCH_PROFILES = 2
    store, workers, *paths = sys.argv[1:]
    corpus = open_corpus(store)
    delta.require()
    print("ready", flush=True)
    add.add_profiles(corpus, paths, workers=int(workers), report=report)
"""
TRACES = 10
REPORTS = 2 * TRACES
"""Lines that a writer prints: two per trace."""


def start(script: Path, store: str, workers: int, paths: list[str]) -> subprocess.Popen[str]:
    """A writer in a process group of its own, ready to write."""
    process = subprocess.Popen(
        [sys.executable, str(script), store, str(workers), *paths],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_and_check(folder: Path, times: int, seed: int, workers: int) -> None:
    """Kill a writer again and again; after each time the store must be whole."""
    draw = random.Random(seed)
    script = folder / "writer.py"
    script.write_text(WRITER)
    paths = [str(write_trace(folder / f"t{at}.json", gemm_us=20 + at)) for at in range(TRACES)]
    corpus = create_corpus(folder / "store")
    early = 0
    for number in range(times):
        process = start(script, corpus.url, workers, paths)
        assert process.stdout is not None
        # Anywhere in a run and, at times, after its end; not by the clock, which knows no progress.
        seen = [process.stdout.readline() for _ in range(draw.randrange(REPORTS) if number else 0)]
        time.sleep(draw.uniform(0, 0.05))
        early += process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said = ("".join(seen) + process.communicate()[0]).split("\n")[:-1]
        told = {line.removeprefix("added ") for line in said if line.startswith("added ")}
        check(corpus, told)
        held = corpus.profiles()["id"].to_list()
        if len(held) == TRACES:
            corpus.remove(held)
    assert early, "no writer was killed before its end"
    add_profiles(corpus, paths, workers=1)
    check(corpus, set(paths))
    assert corpus.profiles().height == TRACES


def check(corpus: Corpus, told: set[str]) -> None:
    """All that was reported is there, and all that is there is whole."""
    corpus = open_corpus(corpus.url)
    held = set(corpus.profiles()["file"].to_list())
    assert told <= held
    checked = verify(corpus)
    assert checked.problems == []
    assert checked.profiles == len(held)
    if held:
        assert sum(row.importance_pct for row in importance(corpus).rows) == pytest.approx(100)


@pytest.mark.long
def test_a_killed_writer_loses_nothing_that_it_reported(tmp_path: Path) -> None:
    kill_and_check(tmp_path, times=3, seed=1, workers=1)


@pytest.mark.long
@pytest.mark.parametrize(("workers", "times"), [(1, 40), (2, 12)])
def test_a_writer_is_killed_many_times(tmp_path: Path, workers: int, times: int) -> None:
    kill_and_check(tmp_path, times, seed=2, workers=workers)


def test_two_writers_at_once(tmp_path: Path) -> None:
    """Both add some files of their own and some of the other's; each content is there once."""
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    paths = [str(write_trace(tmp_path / f"t{at}.json", gemm_us=20 + at)) for at in range(9)]
    corpus = create_corpus(tmp_path / "store")
    writers = [start(script, corpus.url, 1, part) for part in (paths[:6], paths[3:])]
    said = [process.communicate()[0] for process in writers]

    assert [process.returncode for process in writers] == [0, 0]
    told = {line.removeprefix("added ") for text in said for line in text.splitlines()}
    assert set(paths) <= told | {"ready"}
    assert sorted(corpus.profiles()["file"].to_list()) == sorted(paths)
    assert verify(corpus).ok
    other = create_corpus(tmp_path / "other")
    add_profiles(other, paths, workers=1)
    assert importance(corpus) == importance(other)


@pytest.mark.long
def test_removing_while_another_adds(tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    paths = [str(write_trace(tmp_path / f"t{at}.json", gemm_us=20 + at)) for at in range(8)]
    corpus = create_corpus(tmp_path / "store")
    add_profiles(corpus, paths[:4], workers=1)
    writer = start(script, corpus.url, 1, paths[4:])
    gone = corpus.profiles().filter(~corpus.profiles()["file"].is_in([paths[3]]))["id"].to_list()
    assert corpus.remove(gone) == sorted(gone)
    compact(corpus)
    writer.communicate()
    assert writer.returncode == 0
    assert sorted(corpus.profiles()["file"].to_list()) == paths[3:]
    assert verify(corpus).ok
