"""Commits whose log entries are damaged or gone: found, and what a repair can and cannot do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.corpus import commits
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.repair import repair
from solscope.corpus.maintenance.verify import Verification, verify
from solscope.corpus.schema import ALL_TABLES, BATCHES
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.sampling import some
from tests.unit.corpus.traces import write_trace

ADDED = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store with four batches of one profile each."""
    folder = tmp_path_factory.mktemp("whole")
    made = create_corpus(folder / "store")
    for at in range(ADDED):
        made.append([extract(str(write_trace(folder / f"t{at}.json", gemm_us=20 + at)))])
    return made


@pytest.fixture
def corpus(whole: Corpus, tmp_path: Path) -> Corpus:
    return open_corpus(shutil.copytree(whole.url, tmp_path / "store"))


def entry(corpus: Corpus, table: str, version: int) -> Path:
    return Path(corpus.url, table, "_delta_log", f"{version:020}.json")


def found(checked: Verification) -> bool:
    return not checked.ok or checked.unrecorded_batches > 0


@pytest.mark.parametrize("damage", some(["deleted", "emptied", "cut"], 2))
@pytest.mark.parametrize("version", [ADDED, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("table", some((name for name in ALL_TABLES if name != "events"), 2))
def test_every_damaged_log_entry_is_found(
    corpus: Corpus, table: str, version: int, damage: str
) -> None:
    log = entry(corpus, table, version)
    if damage == "deleted":
        log.unlink()
    elif damage == "emptied":
        log.write_bytes(b"")
    else:
        # The last line, with the files or numbers of the commit.
        log.write_bytes(b"\n".join(log.read_bytes().splitlines()[:1]))
    assert found(verify(corpus))


def test_a_lost_commit_is_named_and_can_be_given_up(
    corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(corpus, "profiles", ADDED).unlink()
    (problem,) = verify(corpus).problems
    assert problem.where == "batch 4"
    assert "1 profiles were added, but this commit to `profiles` is lost" in problem.what

    assert run(["corpus", "repair", corpus.url]) == 1
    assert "cannot be repaired" in capsys.readouterr().out
    assert run(["corpus", "repair", corpus.url, "--accept-loss"]) == 0
    assert "accepted: 1 profile of lost batches no longer expected" in capsys.readouterr().out
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)
    assert repair(corpus, accept=True).accepted_loss == 0


def test_a_lost_commit_is_found_after_another_one_took_its_number(
    corpus: Corpus, tmp_path: Path
) -> None:
    entry(corpus, "profiles", ADDED).unlink()
    corpus.append([extract(str(write_trace(tmp_path / "new.json", gemm_us=90)))])
    (problem,) = verify(corpus).problems
    assert problem.where == "batch 4"
    assert "2 profiles expected, 1 found" in problem.what
    assert repair(corpus, accept=True).accepted_loss == 1
    assert verify(corpus).ok


def test_files_of_a_lost_commit_can_be_added_again(corpus: Corpus, tmp_path: Path) -> None:
    entry(corpus, "profiles", ADDED).unlink()
    path = write_trace(tmp_path / "again.json", gemm_us=20 + ADDED - 1)
    assert len(corpus.append([extract(str(path))])) == 1
    repair(corpus, accept=True)
    assert verify(corpus).ok
    assert corpus.profiles().height == ADDED


def roll_back(corpus: Corpus, versions: int = 2) -> None:
    """All logs as they were some commits ago, as by an old copy of them."""
    for name in (name for name in ALL_TABLES if name != "events"):
        for log in sorted(Path(corpus.table_url(name), "_delta_log").glob("*.json"))[-versions:]:
            log.unlink()


def test_logs_that_were_rolled_back_together_are_found(
    corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    roll_back(corpus)
    assert run(["corpus", "verify", corpus.url]) == 1
    assert "8 data files that no commit names" in capsys.readouterr().out
    (problem,) = verify(corpus).problems
    assert problem.where == "batches 3 to 4"
    assert problem.what.startswith("2 profiles were added, but no log names that: the logs of the")
    left = sorted(Path(corpus.url).glob("*/*.parquet"))
    for file in left:
        os.utime(file, (0, 0))
    compact(corpus)  # Would remove files without a commit that are a day old.
    assert sorted(Path(corpus.url).glob("*/*.parquet")) == left

    assert [batch.batch for batch in repair(corpus).lost] == ["batches 3 to 4"]
    assert repair(corpus, accept=True).accepted_loss == 2
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)
    assert repair(corpus, accept=True).accepted_loss == 0
    compact(corpus)
    assert verify(corpus).uncommitted_files == 0


def test_compaction_takes_nothing_that_logs_which_were_rolled_back_name(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "COMPACT_FROM", 2)
    newer = shutil.copytree(corpus.url, tmp_path / "newer")
    named = {file.relative_to(newer) for file in newer.rglob("*.parquet")}
    for file in named:
        os.utime(Path(corpus.url) / file, (0, 0))  # Old enough to be removed without a commit.
    roll_back(corpus)
    for at in range(3):
        corpus.append([extract(str(write_trace(tmp_path / f"{at}.json", gemm_us=90 + at)))])
        compact(corpus)
    left = {file.relative_to(corpus.url) for file in Path(corpus.url).rglob("*.parquet")}
    assert named <= left
    for name in ALL_TABLES:
        log = Path(corpus.table_url(name), "_delta_log")
        shutil.rmtree(log)
        shutil.copytree(newer / name / "_delta_log", log)
    assert sorted(corpus.profiles()["id"]) == sorted(open_corpus(str(newer)).profiles()["id"])


def test_a_removal_that_was_rolled_back_loses_no_profile(corpus: Corpus) -> None:
    corpus.remove([corpus.profiles()["id"][0]])
    roll_back(corpus, 1)
    (problem,) = verify(corpus).problems
    assert "1 profile was removed, but no log names that" in problem.what
    assert repair(corpus, accept=True).accepted_loss == 0
    assert verify(corpus).ok


def test_a_rollback_is_found_after_others_took_its_numbers(corpus: Corpus, tmp_path: Path) -> None:
    roll_back(corpus)
    for at in range(3):
        corpus.append([extract(str(write_trace(tmp_path / f"{at}.json", gemm_us=90 + at)))])
    (problem,) = verify(corpus).problems
    assert problem.where == "batches 3 to 4"
    assert repair(corpus, accept=True).accepted_loss == 2
    assert verify(corpus).ok
    corpus.append([extract(str(write_trace(tmp_path / "more.json", gemm_us=99)))])
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches, checked.profiles) == ([], 0, 6)


def test_a_writer_that_was_stopped_while_it_wrote_its_record_is_no_rollback(
    corpus: Corpus, tmp_path: Path
) -> None:
    entry(corpus, BATCHES, ADDED).unlink()
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 1)
    assert repair(corpus).clean
    corpus.append([extract(str(write_trace(tmp_path / "more.json", gemm_us=99)))])
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches, checked.uncommitted_files) == ([], 0, 1)


def test_the_record_of_a_stopped_removal_comes_from_the_log(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "record", lambda *_: None)
        corpus.remove([corpus.profiles()["id"][0]])
    checked = verify(corpus)
    assert checked.unrecorded_batches == 1
    assert not checked.ok  # One profile less than recorded, until the record is complete.
    assert repair(corpus).clean
    assert verify(corpus).ok
    records = corpus.raw(BATCHES).collect()
    assert records.filter(kind="remove")["profiles"].to_list() == [-1]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_batch_without_a_record_loses_nothing_when_its_profiles_are_removed(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: int
) -> None:
    new = [extract(str(write_trace(tmp_path / f"{n}.json", gemm_us=90 + n))) for n in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "record", lambda *_: None)  # As if killed right before it.
        ids = corpus.append(new)
    corpus.remove(ids[kept:])
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 1)
    assert repair(corpus).clean
    checked = verify(corpus)
    assert (checked.problems, checked.unrecorded_batches) == ([], 0)
    assert corpus.raw(BATCHES).collect().filter(batch=ADDED + 1)["profiles"].to_list() == [2]


def test_a_record_that_a_repair_and_its_writer_wrote_counts_once(corpus: Corpus) -> None:
    corpus.record(2, "add", {2: 1}, "repair")
    assert verify(corpus).ok


def test_a_record_of_another_program_is_a_difference(corpus: Corpus) -> None:
    rows = corpus.raw("profiles").collect().head(1)
    commits.append(corpus.table_url("profiles"), rows)
    assert any("more than once" in problem.what for problem in verify(corpus).problems)
