"""What a run is to do, and how its processes end."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

from solscope.bench.catalog import Solution, find_solution
from solscope.bench.pool.process import Limits, WorkerFailed
from solscope.bench.pool.spawner import Spawner
from solscope.bench.results.digest import with_digests
from solscope.bench.results.files import append_result
from solscope.bench.run import correctness
from solscope.bench.run import evaluate as evaluation
from solscope.bench.run.agenda import Agenda, Options
from solscope.bench.run.correctness import OperatorCheck
from solscope.bench.run.evaluate import evaluate
from solscope.bench.worker.messages import ReleaseAll
from solscope.bench.worker.worker import Worker
from solscope.bench.workloads import SMALL, Workload
from solscope.errors import UsageError

FIRST_IS_WRONG = """
calls = 0

def run(x, weight, eps):
    import torch

    global calls
    calls += 1
    right = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    return right * 2 if calls == 1 else right
"""


SLOW = """
import pathlib, time

def run(**_):
    pathlib.Path({started!r}).touch()
    time.sleep(3600)
    pathlib.Path({ended!r}).touch()
"""

WARM = pytest.mark.usefixtures("warm_workers")
ONE = {"operators": ["rms_norm"], "shapes": "0", "check_only": True}


def options(*solutions: Solution, **more: object) -> Options:
    facts = {"shapes": "0,1", "device": "cpu", "scale": SMALL, "extra": 0, "rounds": 1, **more}
    facts = {"operators": ["rms_norm", "l2_norm"], "solutions": solutions, **facts}
    return Options(**facts)  # type: ignore[arg-type]


def folder(path: Path, language: str) -> Solution:
    path.mkdir()
    (path / "rms_norm.py").write_text(FIRST_IS_WRONG)
    (path / "solution.toml").write_text(f'title = "x"\nlanguage = "{language}"\n')
    return find_solution(str(path))


@WARM
def test_only_what_no_earlier_run_has_is_due(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    solution = find_solution("torch-eager")
    (done,) = evaluate(replace(options(solution), **ONE))  # type: ignore[arg-type]
    append_result(out, done)
    again = options(solution, out=out, resume=True, check_only=True)
    agenda = Agenda(again, "cpu", None, lambda _: None)
    runs = agenda.runs(tmp_path / "copies")
    assert [run.operator.name for run in runs] == ["rms_norm", "l2_norm"]
    assert [shape.shape for shape in runs[0].shapes] == ["1"]
    assert (agenda.work(runs), agenda.work(runs[:1])) == (3, 1)
    agenda = Agenda(replace(again, check_only=False), "cpu", None, lambda _: None)
    assert agenda.work(agenda.runs(tmp_path / "copies")) == 4, "what was checked is not timed yet"


@WARM
def test_a_compiler_sees_the_same_sizes_first_whatever_is_left_to_be_done(tmp_path: Path) -> None:
    solution = find_solution("torch-eager")
    whole = options(solution, operators=["rms_norm"], scale=1.0, shapes="all", check_only=True)
    (run,) = Agenda(whole, "cpu", None, lambda _: None).runs(tmp_path / "copies")
    assert len(run.rehearsed) > 1
    (done,) = evaluate(replace(options(solution), **ONE))  # type: ignore[arg-type]
    out = tmp_path / "r.jsonl"
    smallest = [shape.shape for shape in run.shapes if shape.axes in run.rehearsed]
    for shape in smallest:
        known = {"shape": shape, "scale": 1.0, "digest": "", "run_digest": ""}
        append_result(out, with_digests(msgspec.structs.replace(done, **known), ""))
    again = replace(whole, out=out, resume=True)
    (left,) = Agenda(again, "cpu", None, lambda _: None).runs(tmp_path / "copies")
    assert {one.shape for one in left.shapes}.isdisjoint(smallest)
    assert left.rehearsed == run.rehearsed
    assert left.heaviest == run.heaviest == run.shapes[0].axes


def test_waves_hold_so_many_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.bench.run.agenda.MAX_PROCESSES", 3)
    agenda = Agenda(options(find_solution("torch-eager"), restarts=2), "cpu", None, lambda _: None)
    runs = agenda.runs(tmp_path / "copies")
    assert [[run.operator.name for run in wave] for wave in agenda.waves(runs)] == [
        ["rms_norm"],
        ["l2_norm"],
    ]


@WARM
def test_a_failure_of_ours_loses_one_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = OperatorCheck._shape

    def shape(check: OperatorCheck, shape: Workload, *others: Any) -> None:
        whole(check, shape, *others)
        if shape.shape == "1":
            raise RuntimeError("no reference")

    monkeypatch.setattr(OperatorCheck, "_shape", shape)
    one = options(find_solution("torch-eager"), operators=["rms_norm"], check_only=True)
    found = {line.shape: (line.status, line.reason) for line in evaluate(one)}
    assert found == {
        "0": ("passed", None),
        "1": ("unsupported", "the evaluator failed: RuntimeError: no reference"),
    }


@WARM
@pytest.mark.parametrize(
    ("first_call", "status"),
    [("raise RuntimeError", "passed"), ("import solscope", "cheating")],
)
def test_what_fails_beside_others_is_tried_alone(
    tmp_path: Path, first_call: str, status: str
) -> None:
    """Others may have taken the memory or spoilt the inputs; cheating is one's own doing."""
    mine = folder(tmp_path / "mine", "triton")
    (tmp_path / "mine" / "rms_norm.py").write_text(
        FIRST_IS_WRONG.replace("    calls += 1", f"    calls += 1\n    if calls == 1: {first_call}")
    )
    one = options(mine, find_solution("torch-eager"), check_only=True, shapes="0", rounds=2)
    found = {(line.operator, line.solution): line for line in evaluate(one)}
    assert found["rms_norm", "mine"].status == status
    assert found["rms_norm", "torch-eager"].status == "passed"


@WARM
@pytest.mark.parametrize(("language", "status"), [("torch", "wrong_numbers"), ("triton", "passed")])
def test_what_compiles_is_called_before_it_is_judged(
    tmp_path: Path, language: str, status: str
) -> None:
    mine = folder(tmp_path / "mine", language)
    one = options(mine, find_solution("torch-eager"), check_only=True, shapes="0")
    found = {(line.operator, line.solution): line.status for line in evaluate(one)}
    assert found["rms_norm", "mine"] == status
    assert found["rms_norm", "torch-eager"] == "passed"


@pytest.mark.long
def test_workers_that_were_ended_are_gone_when_all_is_settled() -> None:
    with Spawner(Limits()) as spawner:
        workers = [spawner.take() for _ in range(2)]
        for worker in workers:
            worker.dismiss()
        assert not any(worker.alive for worker in workers)
        spawner.settle()
        for worker in workers:
            with pytest.raises(ProcessLookupError):
                os.kill(worker.pid, 0)


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_gone_before_its_memory_is_looked_at() -> None:
    with Spawner(Limits()) as spawner:
        worker = spawner.take()
        with pytest.raises(WorkerFailed, match="no answer"):
            worker.ask(ReleaseAll(), 0.0)
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)


@WARM
def test_what_stops_one_operator_stops_all_and_writes_nothing(tmp_path: Path) -> None:
    started, ended, out = (tmp_path / name for name in ("started", "ended", "r.jsonl"))
    path = tmp_path / "mine"
    path.mkdir()
    (path / "rms_norm.py").write_text(SLOW.format(started=str(started), ended=str(ended)))
    (path / "l2_norm.py").write_text("def run(**_): ...\n")
    (path / "solution.toml").write_text('title = "x"\nlanguage = "torch"\n')

    def progress(text: str) -> None:
        if text.startswith("l2_norm"):
            while not started.exists():
                time.sleep(0.05)
            raise KeyboardInterrupt

    one = options(find_solution(str(path)), check_only=True, shapes="0", jobs=2, out=out)
    with pytest.raises(KeyboardInterrupt):
        evaluate(one, progress)
    assert not ended.exists()
    assert not out.exists()


@WARM
def test_shapes_that_checks_had_no_time_for_have_another_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Checks get a share of the time; what is left when all is timed is not given away."""
    checked_run = OperatorCheck.run

    def one_shape(self: OperatorCheck, *args: Any, **named: Any) -> None:
        turns = iter([True])
        named["in_time"] = lambda: next(turns, False)
        checked_run(self, *args, **named)

    said: list[str] = []
    monkeypatch.setattr(OperatorCheck, "run", one_shape)
    about = {"operators": ["l2_norm"], "shapes": "0,1,2", "restarts": 1, "extra": 1}
    wanted = options(find_solution("torch-eager"), time_budget_s=1e6, **about)
    lines = evaluate(wanted, said.append)
    assert sorted(line.shape for line in lines) == ["0", "1", "2"]
    assert {line.status for line in lines} == {"passed"}
    assert sum(text.startswith("starting ") for text in said) == 3
    cases = [text for text in said if text.startswith("l2_norm: ")]
    assert len(cases) == len(set(cases)), "extra cases are run once"
    assert {line.rounds for line in lines} == {lines[0].rounds}


@WARM
@pytest.mark.parametrize(("budget_s", "turns"), [(15.0, 1), (20.0, 2)])
def test_a_turn_begins_only_where_more_time_is_left_than_it_takes_to_prepare(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, turns: int
) -> None:
    """Building takes 8 s here, and nothing else takes time."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=time.thread_time)
    checked_run, built = OperatorCheck.run, []

    def build(_: OperatorCheck) -> None:
        built.append(now[0])
        now[0] += 8.0

    def one_shape(self: OperatorCheck, *args: Any, **named: Any) -> None:
        turn = iter([True])
        named["in_time"] = lambda: next(turn, False)
        checked_run(self, *args, **named)

    monkeypatch.setattr(evaluation, "time", clock)
    monkeypatch.setattr(correctness, "time", clock)
    monkeypatch.setattr(OperatorCheck, "build", build)
    monkeypatch.setattr(OperatorCheck, "run", one_shape)
    about = {"operators": ["l2_norm"], "shapes": "0,1,2", "restarts": 1}
    wanted = options(find_solution("torch-eager"), time_budget_s=budget_s, **about)
    assert len(evaluate(wanted)) == len(built) == turns


@WARM
def test_an_operator_that_is_named_twice_is_run_once() -> None:
    wanted = options(find_solution("torch-eager"), operators=["l2_norm"] * 2, shapes="0")
    assert [(line.operator, line.shape) for line in evaluate(wanted)] == [("l2_norm", "0")]


@WARM
def test_turns_end_where_nothing_comes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    monkeypatch.setattr(OperatorCheck, "run", lambda *_, **__: turns.append(1))
    wanted = options(find_solution("torch-eager"), time_budget_s=1e6, operators=["l2_norm"])
    with pytest.raises(UsageError, match="nothing was done"):
        evaluate(wanted)
    assert turns == [1]


@pytest.mark.long
def test_rows_have_a_constant_size_for_torch_compile() -> None:
    import torch

    worker = Worker(torch, [])
    rows, weight, ids = torch.ones(4, 8), torch.ones(8), torch.ones(4, 2, dtype=torch.int32)
    for value in (rows, weight, ids, 3.0):
        worker._constant_features(value)
    assert vars(rows)["_dynamo_static_indices"] == {1}
    assert not hasattr(weight, "_dynamo_static_indices")
    assert not hasattr(ids, "_dynamo_static_indices")


def test_an_operator_of_another_suite_names_it(tmp_path: Path) -> None:
    other = options(find_solution("torch-eager"), operators=["dense_gemm"])
    agenda = Agenda(other, "cpu", None, lambda _: None)
    why = "the suite atrex has no shapes of dense_gemm; choose one that has: --suite decode"
    with pytest.raises(UsageError, match=why):
        agenda.runs(tmp_path / "copies")
