"""What a run is to do, and how its processes end."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from solscope.bench.agenda import Agenda, Options
from solscope.bench.catalog import Solution, find_solution
from solscope.bench.evaluate import evaluate
from solscope.bench.process import Limits, Spawner
from solscope.bench.results import append_result
from solscope.bench.worker import Worker
from solscope.bench.workloads import SMALL

FIRST_IS_WRONG = """
calls = 0

def run(x, weight, eps):
    import torch

    global calls
    calls += 1
    right = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    return right * 2 if calls == 1 else right
"""


ONE = {"operators": ["rms_norm"], "shapes": "0", "check_only": True}


def options(*solutions: Solution, **more: object) -> Options:
    facts = {"shapes": "0,1", "device": "cpu", "scale": SMALL, "extra": 0, "rounds": 1, **more}
    return Options(operators=["rms_norm", "l2_norm"], solutions=solutions, **facts)  # type: ignore[arg-type]


def folder(path: Path, language: str) -> Solution:
    path.mkdir()
    (path / "rms_norm.py").write_text(FIRST_IS_WRONG)
    (path / "solution.toml").write_text(f'title = "x"\nlanguage = "{language}"\n')
    return find_solution(str(path))


def test_only_what_no_earlier_run_has_is_due(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    solution = find_solution("torch-eager")
    (done,) = evaluate(replace(options(solution), **ONE))  # type: ignore[arg-type]
    append_result(out, done)
    agenda = Agenda(options(solution, out=out, resume=True), "cpu", None, lambda _: None)
    runs = agenda.runs(tmp_path / "copies")
    assert [run.operator.name for run in runs] == ["rms_norm", "l2_norm"]
    assert [shape.shape for shape in runs[0].shapes] == ["1"]
    assert (agenda.work(runs), agenda.work(runs[:1])) == (3, 1)


def test_waves_hold_so_many_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.bench.agenda.MOST_PROCESSES", 3)
    agenda = Agenda(options(find_solution("torch-eager"), restarts=2), "cpu", None, lambda _: None)
    runs = agenda.runs(tmp_path / "copies")
    assert [[run.operator.name for run in wave] for wave in agenda.waves(runs)] == [
        ["rms_norm"],
        ["l2_norm"],
    ]


@pytest.mark.parametrize(("language", "status"), [("torch", "wrong_numbers"), ("triton", "passed")])
def test_what_compiles_is_called_before_it_is_judged(
    tmp_path: Path, language: str, status: str
) -> None:
    mine = folder(tmp_path / "mine", language)
    one = options(mine, find_solution("torch-eager"), check_only=True, shapes="0")
    found = {(line.operator, line.solution): line.status for line in evaluate(one)}
    assert found["rms_norm", "mine"] == status
    assert found["rms_norm", "torch-eager"] == "passed"


def test_workers_that_were_ended_are_gone_when_all_is_settled() -> None:
    with Spawner(Limits()) as spawner:
        workers = [spawner.take() for _ in range(2)]
        for worker in workers:
            worker.kill()
        assert not any(worker.alive for worker in workers)
        spawner.settle()
        for worker in workers:
            with pytest.raises(ProcessLookupError):
                os.kill(worker.pid, 0)


def test_rows_have_a_constant_size_for_torch_compile() -> None:
    import torch

    worker = Worker(torch, [])
    rows, weight, ids = torch.ones(4, 8), torch.ones(8), torch.ones(4, 2, dtype=torch.int32)
    for value in (rows, weight, ids, 3.0):
        worker._constant_features(value)
    assert vars(rows)["_dynamo_static_indices"] == {1}
    assert "_dynamo_static_indices" not in vars(weight)
    assert "_dynamo_static_indices" not in vars(ids)
