"""Several processes write to one store at the same time; no row may be doubled or lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

WRITER = """
import json
import sys
from solscope.corpus.ingest import add, extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.store import open_corpus

def wait():
    print("ready", flush=True)
    sys.stdin.readline()

if __name__ == "__main__":
    while trial := sys.stdin.readline():
        store, own, same, *late = json.loads(trial)
        corpus = open_corpus(store)
        wait()
        add.add_profiles(corpus, [own, same], workers=1)
        wait()
        if late:
            add.add_profiles(corpus, late, workers=1)
        compact(corpus)
        print("done", flush=True)
"""
EARLIER = 15
"""Batches that the store has before: with one more, a compaction has something to join."""
ROWS = 3
"""Rows in `times` of each trace."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store of many small files."""
    folder = tmp_path_factory.mktemp("race")
    corpus = create_corpus(folder / "store")
    for at in range(EARLIER):
        corpus.append([extract(str(write_trace(folder / f"t{at}.json", gemm_us=20 + at)))])
    return corpus


@contextmanager
def started(folder: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Writers for all trials: a process takes longer to start than a trial does."""
    script = folder / "writer.py"
    script.write_text(WRITER)
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen([sys.executable, str(script)], stdin=pipe, stdout=pipe, text=True)
            )
            for _ in range(count)
        ]
        yield processes
        for process in processes:
            process.communicate()
    assert [process.returncode for process in processes] == [0] * count


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def expect(processes: list[subprocess.Popen[str]], line: str) -> None:
    """Wait until all say so, however long that takes."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{line}\n"


def race(processes: list[subprocess.Popen[str]], corpus: Corpus, files: list[str]) -> None:
    """All add at once, a file of their own and one that all have; then all compact at once.

    One of them adds another file while the others compact.
    """
    same, late, *own = files
    for at, (process, file) in enumerate(zip(processes, own, strict=True)):
        tell(process, json.dumps([corpus.url, file, same, *([late] if not at else [])]))
    for _ in ("add", "compact"):
        expect(processes, "ready")
        for process in processes:
            tell(process, "go")
    expect(processes, "done")


def check(corpus: Corpus, files: list[str], alone: Corpus) -> None:
    """Each file is there once, with its rows; answers are those of a store with one writer."""
    profiles = corpus.profiles()
    assert profiles.height == EARLIER + len(files)
    assert set(files) <= set(profiles["file"].to_list())
    assert set(profiles["file"].to_list()) == set(alone.profiles()["file"].to_list())
    assert corpus.table("times").collect().height == ROWS * profiles.height
    checked = verify(corpus)
    assert (checked.problems, checked.doubled_profiles) == ([], 0)
    assert importance(corpus) == importance(alone)


@pytest.mark.long  # Two writers at once, and nothing else, are in test_durability.py.
@pytest.mark.parametrize(("writers", "trials"), [(2, 10), (4, 5)])
def test_processes_that_add_and_compact_at_once(
    tmp_path: Path, store: Corpus, writers: int, trials: int
) -> None:
    files = [
        str(write_trace(tmp_path / f"w{at}.json", gemm_us=100 + at)) for at in range(writers + 2)
    ]
    alone = create_corpus(tmp_path / "alone")
    add_profiles(alone, [*store.profiles()["file"].to_list(), *files], workers=1)
    with started(tmp_path, writers) as processes:
        for trial in range(trials):
            corpus = open_corpus(shutil.copytree(store.url, tmp_path / str(trial)))
            race(processes, corpus, files)
            check(corpus, files, alone)
