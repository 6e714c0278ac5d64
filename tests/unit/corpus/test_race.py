"""Several processes write to one store at the same time; no row may be doubled or lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

WRITER = """
import sys
from solscope.corpus.ingest import add, extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.store import open_corpus

def wait():
    print("ready", flush=True)
    sys.stdin.readline()

if __name__ == "__main__":
    store, own, same, *late = sys.argv[1:]
    corpus = open_corpus(store)
    wait()
    add.add_profiles(corpus, [own, same], workers=1)
    wait()
    if late:
        add.add_profiles(corpus, late, workers=1)
    compact(corpus)
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


def race(folder: Path, store: Corpus, writers: int) -> None:
    """All add at once, a file of their own and one that all have; then all compact at once.

    One of them adds another file while the others compact.
    """
    corpus = open_corpus(shutil.copytree(store.url, folder / "store"))
    script = folder / "writer.py"
    script.write_text(WRITER)
    same, late, *own = (
        str(write_trace(folder / f"w{at}.json", gemm_us=100 + at)) for at in range(writers + 2)
    )
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), corpus.url, file, same, *([late] if not at else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for at, file in enumerate(own)
    ]
    for _ in ("add", "compact"):
        start_together(processes)
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * writers
    check(corpus, {same, late, *own}, folder)


def start_together(processes: list[subprocess.Popen[str]]) -> None:
    """Wait until all are ready, however long that takes, and let them go on."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def check(corpus: Corpus, files: set[str], folder: Path) -> None:
    """Each file is there once, with its rows; answers are those of a store with one writer."""
    profiles = corpus.profiles()
    assert profiles.height == EARLIER + len(files)
    assert files <= set(profiles["file"].to_list())
    assert corpus.table("times").collect().height == ROWS * profiles.height
    checked = verify(corpus)
    assert (checked.problems, checked.doubled_profiles) == ([], 0)
    alone = create_corpus(folder / "alone")
    add_profiles(alone, profiles["file"].to_list(), workers=1)
    assert importance(corpus) == importance(alone)


@pytest.mark.long  # Two writers at once, and nothing else, are in test_durability.py.
@pytest.mark.parametrize(("writers", "trials"), [(2, 10), (4, 5)])
def test_processes_that_add_and_compact_at_once(
    tmp_path: Path, store: Corpus, writers: int, trials: int
) -> None:
    for trial in range(trials):
        folder = tmp_path / str(trial)
        folder.mkdir()
        race(folder, store, writers)
