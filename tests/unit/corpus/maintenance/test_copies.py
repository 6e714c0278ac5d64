"""Backup and restore, export and import, and earlier versions of a store."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from solscope.cli import run
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.maintenance.backup import backup, restore
from solscope.corpus.maintenance.exchange import export_profiles, import_profiles
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from solscope.errors import DamagedFileError, InputError, UsageError
from tests.unit.corpus.traces import write_trace


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = create_corpus(tmp_path / "store")
    add(made, tmp_path, range(3))
    return made


def add(corpus: Corpus, folder: Path, numbers: range) -> None:
    for at in numbers:
        path = write_trace(folder / f"t{at}.json", gemm_us=20 + at)
        corpus.append([extract(str(path), ExtractOptions(keep_events=at == 0))])


def test_a_backup_is_a_store_of_that_moment(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = importance(corpus)
    snapshot = Corpus.snapshot

    def then_written(self: Corpus) -> Corpus:
        now = snapshot(self)
        with monkeypatch.context() as patch:
            patch.setattr(Corpus, "snapshot", snapshot)
            add(self, tmp_path, range(3, 4))
        return now

    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "snapshot", then_written)
        assert backup(corpus, tmp_path / "backup").profiles == 3
    assert corpus.profiles().height == 4

    restored = restore(tmp_path / "backup", tmp_path / "restored")
    assert restored.profiles == 3
    again = open_corpus(restored.path)
    checked = verify(again, full=True)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)
    assert importance(again) == before
    add(again, tmp_path, range(3, 4))
    assert verify(again).ok
    assert again.raw("batches").collect()["batch"].max() == 4


def test_nothing_is_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose a new folder"):
        backup(corpus, tmp_path)
    with pytest.raises(UsageError, match="choose a new folder"):
        export_profiles(corpus, corpus.profiles(), tmp_path)
    with pytest.raises(InputError, match="not a profile store"):
        restore(tmp_path / "nothing", tmp_path / "new")


def test_profiles_move_to_another_store(corpus: Corpus, tmp_path: Path) -> None:
    other = create_corpus(tmp_path / "other")
    add(other, tmp_path, range(1))
    assert run(["corpus", "export", corpus.url, str(tmp_path / "export")]) == 0
    assert run(["corpus", "import", other.url, str(tmp_path / "export")]) == 0
    assert importance(other) == importance(corpus)
    assert other.table("events").collect().height == 16
    assert verify(other).ok
    again = import_profiles(other, tmp_path / "export")
    assert (again.added, again.skipped) == (0, 3)


def test_what_changed_in_an_export_is_not_imported(corpus: Corpus, tmp_path: Path) -> None:
    export_profiles(corpus, corpus.profiles(), tmp_path / "export")
    other = create_corpus(tmp_path / "other")
    file = tmp_path / "export" / "times.parquet"
    pl.read_parquet(file).with_columns(pl.col("time_ns") + 1).write_parquet(file)
    with pytest.raises(DamagedFileError, match=r"times of .* are not as stored"):
        import_profiles(other, tmp_path / "export")
    assert other.profiles().is_empty()
    with pytest.raises(InputError, match="not an export"):
        import_profiles(other, tmp_path)


def test_an_earlier_version_can_be_read(corpus: Corpus) -> None:
    """As docs/how-to/keep-a-profile-store.md says."""
    earlier = pl.scan_delta(f"{corpus.url}/profiles", version=2).collect()
    assert earlier.height == 2
