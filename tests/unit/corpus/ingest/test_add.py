from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import solscope
from solscope.corpus import commits
from solscope.corpus.ingest import add, task
from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.ingest.engines import local, make_engine
from solscope.corpus.ingest.engines.local import LocalEngine, Work
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.ingest.inputs import find_items
from solscope.corpus.ingest.task import Outcome, Task, process
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.queries.listing import find_ids
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError, MissingToolError, UsageError
from solscope.report.json import render_json
from tests.unit.corpus.ingest import deadly
from tests.unit.corpus.traces import write_trace


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return create_corpus(tmp_path / "store")


def test_a_bad_file_is_a_row_and_the_rest_goes_on(corpus: Corpus, tmp_path: Path) -> None:
    good = write_trace(tmp_path / "good.json")
    text, damaged = tmp_path / "notes.txt", tmp_path / "damaged.json"
    text.write_text("no profile")
    damaged.write_bytes(b'{"traceEvents": [ {"ph": "X", "cat": "kernel", "na')
    missing = tmp_path / "missing.json"

    result = add_profiles(corpus, [missing, text, good, damaged], workers=1)

    assert (result.added, result.skipped) == (1, 0)
    reasons = {Path(row.file).name: row.reason for row in result.failed}
    assert sorted(reasons) == ["damaged.json", "missing.json", "notes.txt"]
    assert "No such file" in reasons["missing.json"]
    assert "unknown profile format" in reasons["notes.txt"]
    assert verify(corpus).ok


def test_a_bug_is_a_row_too(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(task, "reduce", breaks)
    (row,) = add_profiles(corpus, [write_trace(tmp_path / "a.json")], workers=1).failed
    assert "a bug in solscope (ZeroDivisionError: oops)" in row.reason


def test_a_folder_stands_for_all_profiles_below_it(corpus: Corpus, tmp_path: Path) -> None:
    top = tmp_path / "traces"
    write_trace(top / "a.json", gemm_us=21)
    write_trace(top / "deep" / "er" / "b.json", gemm_us=22)
    write_trace(top / ".hidden" / "c.json", gemm_us=23)
    solscope.open(write_trace(tmp_path / "d.json", gemm_us=24)).save(top / "saved")
    (top / "README.md").write_text("about")
    (top / "a.solscope.json").write_text('{"team": "x"}')
    (top / "a.metrics.csv").write_text("t_ns,metric,device,value\n")
    create_corpus(top / "another-store")

    result = add_profiles(corpus, [top], workers=1)

    assert (result.added, result.failed, result.ignored) == (3, [], 1)
    assert "team" in "".join(corpus.profiles()["tags"])


def test_globs_and_urls(corpus: Corpus, tmp_path: Path) -> None:
    for at in range(3):
        write_trace(tmp_path / "in" / f"{at}.json", gemm_us=20 + at)
    (tmp_path / "in" / "2.solscope.json").write_text('{"model": "M"}')
    assert len(find_items([f"{tmp_path}/in/*.json"])) == 3
    assert add_profiles(corpus, [f"{tmp_path}/**/0.json"], workers=1).added == 1
    result = add_profiles(corpus, [f"file://{tmp_path}/in"], workers=1)
    assert (result.added, result.skipped, result.failed) == (2, 1, [])
    rows = corpus.profiles()
    assert f"file://{tmp_path}/in/2.json" in rows["file"].to_list()
    assert rows["model"].drop_nulls().to_list() == ["M"]
    with pytest.raises(InputError, match="nothing matches"):
        find_items([f"{tmp_path}/*.nothing"])


def test_hostile_names_are_added(corpus: Corpus, tmp_path: Path) -> None:
    name = "a'; DROP TABLE x; --\x1b[31m\udcff.json"
    path = write_trace(tmp_path / name)
    assert add_profiles(corpus, [path], workers=1).added == 1
    (row,) = corpus.profiles().iter_rows(named=True)
    assert row["file"].endswith("?.json")
    assert find_ids(corpus, [str(path)]) == [row["id"]]
    assert corpus.remove([row["id"]]) == [row["id"]]


def test_a_pipe_is_refused_and_does_not_block(corpus: Corpus, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    (failed,) = add_profiles(corpus, [pipe], workers=1).failed
    assert "a pipe or device" in failed.reason


def test_of_two_files_with_one_content_the_first_named_counts(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards:
        def run(self, tasks: Iterable[Task], known: frozenset[str]) -> Iterator[Outcome]:
            yield from (process(task, known) for task in reversed(list(tasks)))

    monkeypatch.setattr("solscope.corpus.ingest.add.make_engine", lambda *_: Backwards())
    paths = [write_trace(tmp_path / name) for name in ("b.json", "a.json")]
    done = add_profiles(corpus, paths)
    assert (done.added, done.skipped) == (1, 1)
    assert corpus.profiles()["file"].to_list() == [str(paths[0])]


# --- Engines: the same function, so the same results


def traces(folder: Path, count: int) -> list[Path]:
    return [write_trace(folder / f"{at}.json", gemm_us=20 + at, m=64 + at) for at in range(count)]


def answers(corpus: Corpus) -> str:
    return render_json([importance(corpus, by) for by in ("operator", "shape", "kernel")])


@pytest.mark.long
def test_a_pool_of_processes_gives_the_same(corpus: Corpus, tmp_path: Path) -> None:
    paths = traces(tmp_path, 5)
    other = create_corpus(tmp_path / "other")
    threads = os.environ.get("POLARS_MAX_THREADS")
    assert add_profiles(corpus, paths, workers=1) == add_profiles(other, paths[::-1], workers=2)
    assert answers(corpus) == answers(other)
    assert os.environ.get("POLARS_MAX_THREADS") == threads


def outcomes(paths: list[Path], work: Work, workers: int = 2) -> dict[str, Outcome]:
    tasks = [Task(item, ExtractOptions()) for item in find_items(paths)]
    return {Path(o.path).name: o for o in LocalEngine(workers, work).run(tasks, frozenset())}


@pytest.mark.long
def test_a_worker_that_dies_is_replaced_and_its_file_tried_again(tmp_path: Path) -> None:
    paths = traces(tmp_path, 5)
    for path in paths[1:3]:
        Path(f"{path}.first").touch()
    found = outcomes(paths, deadly.once)
    assert sorted(found) == [path.name for path in paths]
    assert all(outcome.extract is not None for outcome in found.values())


@pytest.mark.long
def test_a_file_that_ends_every_worker_fails_alone(tmp_path: Path) -> None:
    poison = write_trace(tmp_path / "poison.json", gemm_us=99)
    found = outcomes([poison, *traces(tmp_path, 3)], deadly.on_poison)
    assert "its reader died 3 times" in (found.pop("poison.json").reason or "")
    assert [outcome.extract is not None for outcome in found.values()] == [True] * 3


@pytest.mark.long
def test_workers_are_replaced_after_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOST_FILES", 2)
    found = outcomes(traces(tmp_path, 6), deadly.name_process)
    files = Counter(outcome.reason for outcome in found.values())
    assert files.total() == 6
    assert max(files.values()) <= 2, "however the two share the work"


@pytest.mark.long
def test_a_run_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    tasks = [Task(item, ExtractOptions()) for item in find_items(traces(tmp_path, 6))]
    run = LocalEngine(2).run(tasks, frozenset())
    assert next(iter(run)).extract is not None
    run.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_without_ray_the_error_says_what_to_install(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingToolError, match=r"pip install 'solscope\[corpus,ray\]'"):
        add_profiles(corpus, traces(tmp_path, 1), engine="ray")


def test_adding_only_appends(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joining files is a step of its own: processes that add must not rewrite what others read."""
    monkeypatch.setattr(add, "BATCH_PROFILES", 1)
    monkeypatch.setattr(commits, "COMPACT_FROM", 3)
    add_profiles(corpus, traces(tmp_path, 7), workers=1)
    assert len(corpus.files("times")) == 7
    compact(corpus)
    assert len(corpus.files("times")) == 1
    assert verify(corpus).ok


def test_engines_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="available: local, ray"):
        make_engine("spark")
    with pytest.raises(UsageError, match="--address is for --engine ray"):
        make_engine("local", address="auto")
    with pytest.raises(UsageError, match="at least one worker"):
        make_engine("local", workers=0)
