from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from solscope.corpus import commits
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance import compaction
from solscope.corpus.maintenance.compaction import compact, remove_uncommitted
from solscope.corpus.maintenance.lock import compaction_lock
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.store import Corpus, create_corpus
from tests.unit.corpus.traces import write_trace

DAY_S = 24 * 3600


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(commits, "COMPACT_FROM", 3)
    made = create_corpus(tmp_path / "store")
    add(made, tmp_path, range(4))
    return made


def add(corpus: Corpus, folder: Path, numbers: range) -> None:
    for at in numbers:
        corpus.append([extract(str(write_trace(folder / f"t{at}.json", gemm_us=20 + at)))])


def on_disk(corpus: Corpus) -> set[str]:
    return {path.name for path in Path(corpus.url, "times").glob("*.parquet")}


@pytest.mark.long
def test_replaced_files_stay_for_readers_until_the_next_compaction(
    corpus: Corpus, tmp_path: Path
) -> None:
    reader = corpus.snapshot()
    compact(corpus)
    assert len(on_disk(corpus)) == 5  # Four, and the one that replaces them.
    assert reader.table("times").collect().height == 12
    add(corpus, tmp_path, range(4, 8))
    compact(corpus)
    add(corpus, tmp_path, range(8, 12))
    compact(corpus)
    checked = verify(corpus)
    assert (checked.problems, checked.profiles) == ([], 12)
    assert len(on_disk(corpus)) < 12


def test_files_of_killed_writers_go_by_the_file_systems_clock(corpus: Corpus) -> None:
    folder = Path(corpus.url, "times")
    fresh, old = folder / "part-fresh.parquet", folder / "part-old.parquet"
    for file in (fresh, old):
        file.write_bytes(b"never committed")
    written = fresh.stat().st_mtime
    os.utime(old, (written - 2 * DAY_S,) * 2)
    for _, name in enumerate(on_disk(corpus) - {fresh.name, old.name}):
        os.utime(folder / name, (written - 2 * DAY_S,) * 2)
    assert remove_uncommitted(folder) == [old]
    assert verify(corpus, full=True).ok


def test_a_file_may_go_away_while_a_compaction_looks_at_it(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that lost a race removes its own file."""
    folder = Path(corpus.url, "times")
    taken = folder / "part-taken.parquet"
    monkeypatch.setattr(compaction, "uncommitted", lambda _: [taken])
    assert remove_uncommitted(folder) == []
    compact(corpus)
    assert verify(corpus, full=True).ok


def test_a_second_compaction_waits_for_the_first(corpus: Corpus) -> None:
    script = (
        "import sys\n"
        "from solscope.corpus.maintenance.lock import compaction_lock\n"
        "print('ready', flush=True)\n"
        "with compaction_lock(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
    )
    with compaction_lock(corpus.url):
        process = subprocess.Popen(
            [sys.executable, "-c", script, corpus.url], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
    assert process.communicate()[0] == "locked\n"


def test_a_compaction_that_lost_a_race_does_not_join_files_once_more(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = commits.merge_files
    merged: list[str] = []

    def lose(table: DeltaTable) -> None:
        if table.table_uri not in merged:
            merged.append(table.table_uri)
            merge(DeltaTable(table.table_uri))  # Another compaction is faster.
        else:
            merged.append("again")
        merge(table)

    monkeypatch.setattr(commits, "merge_files", lose)
    compact(corpus)
    assert len(merged) == 4
    assert "again" not in merged
    assert verify(corpus).ok
