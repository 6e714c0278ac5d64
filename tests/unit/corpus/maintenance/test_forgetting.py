"""Removed profiles leave no trace, where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from solscope.cli import run
from solscope.corpus import commits
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.maintenance.forgetting import forget
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.store import Corpus, create_corpus
from tests.sampling import some
from tests.unit.corpus.traces import write_trace

SECRET = "confidential-run"


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = create_corpus(tmp_path / "store")
    for name, day in (("plain", 0), (SECRET, 5), ("later", 9)):
        path = write_trace(tmp_path / f"{name}.json", gemm_us=20 + day, day=day)
        options = ExtractOptions(tags=(("team", name),), keep_events=True)
        made.append([extract(str(path), options)])
    return made


def traces_of(corpus: Corpus, text: str) -> list[str]:
    """Files below a store that hold a text, Parquet files unpacked."""
    found = []
    for path in Path(corpus.url).rglob("*"):
        if path.suffix == ".parquet":
            held = text in str(pl.read_parquet(path).to_dicts())
        else:
            held = path.is_file() and text.encode() in path.read_bytes()
        if held:
            found.append(str(path.relative_to(corpus.url)))
    return found


def test_names_leave_the_tables_and_the_log(corpus: Corpus) -> None:
    (identity,) = corpus.profiles().filter(pl.col("file").str.contains(SECRET))["id"].to_list()
    assert run(["corpus", "remove", corpus.url, identity]) == 0
    assert traces_of(corpus, SECRET)  # For readers at work, and to go back.
    assert run(["corpus", "remove", corpus.url, "--forget"]) == 0
    assert traces_of(corpus, SECRET) == []
    assert traces_of(corpus, identity) == []
    checked = verify(corpus, full=True)
    assert (checked.problems, checked.profiles) == ([], 2)


def test_a_store_goes_on_after_forgetting(corpus: Corpus, tmp_path: Path) -> None:
    assert run(["corpus", "remove", corpus.url, "--where", f"team={SECRET}", "--forget"]) == 0
    more = extract(str(write_trace(tmp_path / "more.json", gemm_us=77)))
    assert len(corpus.append([more])) == 1
    corpus.remove([more.profile["id"]])
    checked = verify(corpus)
    assert (checked.problems, checked.profiles, checked.unrecorded_batches) == ([], 2, 0)


@pytest.mark.parametrize("table", some(["times", "profiles"], 2))
def test_a_writer_goes_on_when_the_log_is_forgotten_under_it(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """It has opened a table, looks for conflicts since then, and finds no log entries."""
    ours, other = (
        extract(str(write_trace(tmp_path / f"{name}.json", gemm_us=us)))
        for name, us in (("ours", 70), ("other", 71))
    )
    add_rows = commits.add_rows
    meanwhile: list[str] = []

    def after_forgetting(url: str, *rest: Any) -> None:
        if url.endswith(table) and not meanwhile:
            meanwhile.append("begun")
            meanwhile.extend(corpus.append([other]))
            forget(corpus)
        add_rows(url, *rest)

    monkeypatch.setattr(commits, "add_rows", after_forgetting)
    assert len(corpus.append([ours])) == 1
    assert len(meanwhile) == 2
    checked = verify(corpus, full=True)
    assert (checked.problems, checked.profiles, checked.unrecorded_batches) == ([], 5, 0)


def test_statistics_in_the_log_have_no_names(corpus: Corpus) -> None:
    logs = Path(corpus.url).rglob("*.json")
    assert not [log for log in logs if SECRET.encode() in log.read_bytes()]


def test_profiles_are_removed_by_age_and_tag(
    corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    days = sorted(corpus.profiles()["recorded_ns"].to_list())
    limit = pl.from_epoch(pl.Series([days[2] // 10**9]), time_unit="s")[0].isoformat()
    command = ["corpus", "remove", corpus.url, "--before", limit]
    assert run([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("would remove") == 2
    assert corpus.profiles().height == 3
    assert run([*command, "--where", f"team={SECRET}"]) == 0
    assert capsys.readouterr().out.count("removed") == 1
    assert run([*command, "--where", "team=later"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert run(["corpus", "remove", corpus.url, "--older-than", "100000"]) == 0
    assert corpus.profiles().height == 2


def test_what_to_remove_must_be_said(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["corpus", "remove", corpus.url]) == 2
    assert run(["corpus", "remove", corpus.url, "abcdef", "--before", "2026-01-01"]) == 2
    assert "give either ID" in capsys.readouterr().err
