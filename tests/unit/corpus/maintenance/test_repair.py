"""Stores that really hold rows twice, made by appending to their tables without solscope."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from deltalake import write_deltalake

from solscope.cli import run
from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.maintenance.repair import TableRepair, repair
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.schema import TABLES
from solscope.corpus.store import Corpus, create_corpus, open_corpus
from tests.unit.corpus.traces import write_trace

EVENTS = 16
"""Events of one trace."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A store that no test changes."""
    folder = tmp_path_factory.mktemp("whole")
    made = create_corpus(folder / "store")
    paths = [write_trace(folder / f"t{at}.json", gemm_us=20 + at) for at in range(3)]
    add_profiles(made, paths, ExtractOptions(keep_events=True), workers=1)
    return made


@pytest.fixture
def corpus(whole: Corpus, tmp_path: Path) -> Corpus:
    return open_corpus(shutil.copytree(whole.url, tmp_path / "store"))


def append(corpus: Corpus, table: str, rows: pl.DataFrame) -> None:
    write_deltalake(corpus.table_url(table), rows, mode="append")


def double(corpus: Corpus, *tables: str, times: int = 1) -> None:
    """All rows of some tables once more, as two compactions that both commit leave them."""
    for table in tables:
        rows = corpus.raw(table).collect()
        for _ in range(times):
            append(corpus, table, rows)


def contents(corpus: Corpus) -> list[pl.DataFrame]:
    return [corpus.raw(name).collect().sort(pl.all().exclude("^durations.*$")) for name in TABLES]


@pytest.mark.parametrize(
    ("tables", "times"),
    [
        pytest.param(["times"], 1, marks=pytest.mark.long),
        pytest.param(["steps"], 1, marks=pytest.mark.long),
        pytest.param(["events"], 1, marks=pytest.mark.long),
        pytest.param(["profiles"], 1, marks=pytest.mark.long),
        pytest.param(list(TABLES), 1, marks=pytest.mark.long),
        (list(TABLES), 2),
    ],
)
def test_exactly_the_copies_are_removed(corpus: Corpus, tables: list[str], times: int) -> None:
    before, answer = contents(corpus), importance(corpus)
    counts = {name: frame.height for name, frame in zip(TABLES, before, strict=True)}
    double(corpus, *tables, times=times)
    assert verify(corpus).doubled_profiles == 3

    result = repair(corpus)

    assert result.clean
    assert result.profiles == 3
    assert result.rows == times * sum(counts[name] for name in tables)
    assert {row.table: row.rows for row in result.tables} == {
        name: times * counts[name] for name in tables
    }
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)
    assert importance(corpus) == answer
    assert verify(corpus).problems == []
    assert repair(corpus).rows == 0


def test_importance_warns_of_duplicates(corpus: Corpus) -> None:
    assert importance(corpus).warnings == []
    double(corpus, "times")
    (warning,) = importance(corpus).warnings
    assert warning.startswith("3 of 3 profiles have more GPU time than was written")
    repair(corpus)
    assert importance(corpus).warnings == []


def test_only_some_rows_are_doubled(corpus: Corpus) -> None:
    before = contents(corpus)
    append(corpus, "times", corpus.raw("times").head(2).collect())
    result = repair(corpus)
    assert result.tables == [TableRepair("times", 1, 2)]
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_events_that_are_doubled_in_part_stay(corpus: Corpus) -> None:
    """Events have no hash, so nothing proves that the distinct ones are the original ones."""
    append(corpus, "events", corpus.raw("events").head(5).collect())
    before = contents(corpus)
    result = repair(corpus)
    assert result.rows == 0
    (left,) = result.unrepaired
    assert left.table == "events"
    assert left.reason.startswith(f"{EVENTS} rows expected, {EVENTS + 5} found; remove the profile")
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_a_foreign_event_does_not_take_the_place_of_a_repeated_one(tmp_path: Path) -> None:
    """Written A, A, B and found A, A, B, X: A, B, X has the right count and is wrong."""
    path = write_trace(tmp_path / "t.json")
    trace = json.loads(path.read_text())
    trace["traceEvents"].append(trace["traceEvents"][0])
    path.write_text(json.dumps(trace))
    corpus = create_corpus(tmp_path / "store")
    add_profiles(corpus, [path], ExtractOptions(keep_events=True), workers=1)
    foreign = corpus.raw("events").head(1).collect().with_columns(pl.col("start_ns") + 1)
    append(corpus, "events", foreign)
    before = contents(corpus)
    result = repair(corpus)
    assert not result.clean
    assert [row.table for row in result.unrepaired] == ["events"]
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_equal_events_of_a_profile_stay(tmp_path: Path) -> None:
    """A trace may hold the same event twice; a doubled store has it four times."""
    path = write_trace(tmp_path / "t.json")
    trace = json.loads(path.read_text())
    trace["traceEvents"].append(trace["traceEvents"][0])
    path.write_text(json.dumps(trace))
    corpus = create_corpus(tmp_path / "store")
    add_profiles(corpus, [path], ExtractOptions(keep_events=True), workers=1)
    before = contents(corpus)
    events = corpus.raw("events").collect()
    assert events.is_duplicated().sum() == 2
    double(corpus, *TABLES)
    assert repair(corpus).clean
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_what_cannot_be_told_stays(corpus: Corpus) -> None:
    """A row too many that is no copy: nobody knows which one is wrong."""
    row = corpus.raw("times").head(1).collect()
    append(corpus, "times", row.with_columns(pl.col("time_ns") + 1))
    before = contents(corpus)
    result = repair(corpus)
    assert not result.clean
    assert result.rows == 0
    (left,) = result.unrepaired
    assert left.table == "times"
    assert left.reason.startswith("3 rows expected, 4 found; remove the profile")
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_rows_of_unfinished_attempts_are_left_alone(corpus: Corpus) -> None:
    row = corpus.raw("times").head(1).collect().with_columns(pl.lit("nobody").alias("entry"))
    append(corpus, "times", pl.concat([row, row]))
    assert repair(corpus).rows == 0
    assert verify(corpus).doubled_profiles == 0


def test_a_profile_that_is_removed_meanwhile_does_not_come_back(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are chosen again on top of what another process committed."""
    import solscope.corpus.maintenance.repair as module

    double(corpus, "profiles")
    gone = corpus.profiles()["id"].to_list()[:1]
    find, calls = module._find, 0

    def find_and_lose_the_race(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        found = find(*arguments)  # type: ignore[arg-type]
        if calls == 2:  # The first call only looks whether there is something to do.
            corpus.remove(gone)
        return found

    monkeypatch.setattr(module, "_find", find_and_lose_the_race)
    repair(corpus)
    assert calls > 3
    assert corpus.profiles().height == 2
    assert gone[0] not in corpus.known()
    assert corpus.raw("profiles").collect().height == 2


def test_on_the_command_line(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["corpus", "repair", corpus.url]) == 0
    assert "no duplicate rows" in " ".join(capsys.readouterr().out.split())
    double(corpus, "times", "profiles")

    assert run(["corpus", "verify", corpus.url]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 profiles have more rows than were written" in printed
    assert "solscope corpus repair" in printed

    assert run(["corpus", "repair", corpus.url, "--dry-run"]) == 1
    assert "would remove 12 duplicate rows of 3 profiles" in capsys.readouterr().out
    assert run(["corpus", "repair", corpus.url, "--json"]) == 0
    printed_json = json.loads(capsys.readouterr().out)
    printed_json.pop("schema", None)
    assert printed_json == {
        "dry_run": False,
        "profiles": 3,
        "rows": 12,
        "tables": [
            {"table": "profiles", "profiles": 3, "rows": 3},
            {"table": "times", "profiles": 3, "rows": 9},
        ],
        "unrepaired": [],
        "lost": [],
        "accepted_loss": 0,
    }
    assert run(["corpus", "verify", corpus.url]) == 0


def test_copies_are_counted_by_row_not_in_all(corpus: Corpus) -> None:
    """Twice as many events as were written, but one of them 17 times and the others once."""
    entry = corpus.raw("profiles").collect()["entry"][0]
    first = corpus.raw("events").filter(pl.col("entry") == entry).collect().head(1)
    append(corpus, "events", pl.concat([first] * EVENTS))
    before = contents(corpus)
    result = repair(corpus)
    assert result.rows == 0
    assert [row.table for row in result.unrepaired] == ["events"]
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)


def test_the_right_number_of_rows_is_not_enough(corpus: Corpus) -> None:
    """Written A, B, C and found A, A, B, X: A, B, X has the right count and the wrong hash."""
    entry = corpus.raw("profiles").collect()["entry"][0]
    rows = corpus.raw("times").collect()
    mine, others = rows.filter(pl.col("entry") == entry), rows.filter(pl.col("entry") != entry)
    foreign = mine.tail(1).with_columns(pl.col("time_ns") + 1)
    changed = pl.concat([others, mine.head(1), mine.head(mine.height - 1), foreign])
    write_deltalake(corpus.table_url("times"), changed, mode="overwrite")
    before = contents(corpus)
    result = repair(corpus)
    assert result.rows == 0
    assert [row.table for row in result.unrepaired] == ["times"]
    for found, expected in zip(contents(corpus), before, strict=True):
        assert found.equals(expected)
