"""The questions that GPU methods ask, with a timer that stands in for the device."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

pytest.importorskip("torch")

from solscope.bench.base import METHODS, ShapeResult
from solscope.bench.catalog import Solution, find_solution
from solscope.bench.pool import process, spawner
from solscope.bench.pool.slot import WorkerSlot
from solscope.bench.run import agenda, timing_cpu, timing_gpu
from solscope.bench.run import evaluate as evaluation
from solscope.bench.run.timing import Plan
from solscope.bench.worker.messages import CallTimes, CaptureGraph, ReplayGraph, TimeCalls
from solscope.bench.workloads import SMALL
from solscope.operators import operators
from tests.evil import SAMPLES

pytestmark = pytest.mark.usefixtures("warm_workers")
ALL = tuple(METHODS.values())


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers with the timer of `fake_timer.py`, asked as on a GPU."""

    class WithTimer(spawner.Spawner):
        def __init__(self, limits: process.Limits) -> None:
            super().__init__(limits)
            package = self.folder / spawner.COPIED
            shutil.copy(Path(__file__).with_name("fake_timer.py"), package / "device_timer.py")
            worker = package / "worker.py"
            text = worker.read_text()
            for old, new in (
                ('if device != "cpu" and self.timer is None', "if self.timer is None"),
                ("self.torch.cuda.memory_reserved()", "0"),
            ):
                assert old in text
                text = text.replace(old, new)
            worker.write_text(text)

    # A clock that no busy machine moves: requests take 100 us, and the time is never over.
    ticks = itertools.count(0.0, 1e-4)
    clock = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=lambda: next(ticks))
    monkeypatch.setattr(timing_gpu, "time", clock)
    monkeypatch.setattr(evaluation, "Spawner", WithTimer)
    monkeypatch.setattr(timing_cpu, "sample_cpu", timing_gpu.sample_gpu)
    monkeypatch.setattr(agenda.Options, "plan", property(lambda _: Plan(ALL, 0.1)))


def run(operators: list[str], *solutions: Solution, restarts: int = 1) -> list[ShapeResult]:
    options = agenda.Options(
        operators=operators,
        solutions=list(solutions),
        shapes="0",
        device="cpu",
        scale=SMALL,
        restarts=restarts,
        extra=0,
        rounds=1,
    )
    return evaluation.evaluate(options)


@pytest.mark.long
def test_every_method_gives_samples_of_every_process_and_calls_are_checked() -> None:
    names = ["rms_norm", "fused_add_rms_norm", "causal_conv1d"]
    results = run(names, find_solution("torch-eager"), restarts=2)
    assert {result.status for result in results} == {"passed"}
    for result in results:
        cold, warm, graph = (result.methods[name] for name in ALL)
        assert (result.median_us, cold.clock, cold.activities) == (40.0, "kineto", 2)
        assert result.samples_per_restart == warm.samples_per_restart == [30, 30]
        assert (graph.clock, graph.samples_per_restart) == ("evaluator", [5, 5])
        assert (result.host_us, cold.noisy) == (20.0, False)
    by_name = {result.operator: result.checked_calls for result in results}
    singles = 60 + 3  # the last three on changed rows
    updating = {"fused_add_rms_norm": 2 * singles, "causal_conv1d": 2 * singles}
    assert by_name == {"rms_norm": 2 * (singles + 12), **updating}
    assert {result.sets_checked for result in results} == {3}


def test_memory_for_outputs_is_reserved_from_the_first_call_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the driver takes to find memory must not count: it is as long as a kernel."""
    reserved: list[list[int]] = []

    def ask(self: WorkerSlot, request: Any, *, slow: bool = False) -> Any:
        if isinstance(request, TimeCalls):
            reserved.append(request.reserved)
        return asked(self, request, slow=slow)

    asked = WorkerSlot.ask
    monkeypatch.setattr(WorkerSlot, "ask", ask)
    (result,) = run(["rms_norm"], find_solution("torch-eager"))
    size = 2 * result.axes["tokens"] * result.axes["hidden"]
    assert len(reserved) > 1
    assert all(sizes == [size] for sizes in reserved)


def test_a_timed_call_that_is_wrong_is_found(tmp_path: Path) -> None:
    file = tmp_path / "tires.py"
    file.write_text(
        "import torch\n"
        "CALLS = 0\n\n\n"
        "def run(x, weight, eps):\n"
        "    global CALLS\n"
        "    CALLS += 1\n"
        "    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)\n"
        "    return out if CALLS < 20 else out * 2\n"
    )
    (result,) = run(["rms_norm"], find_solution(str(file)))
    assert result.status == "wrong_numbers"


def test_an_update_that_some_timed_calls_leave_out_is_found(tmp_path: Path) -> None:
    """The last calls on each set are right, and so is what can be seen when all are over."""
    file = tmp_path / "rests.py"
    file.write_text(
        "import torch\n"
        "CALLS = 0\n\n\n"
        "def run(x, residual, weight, eps):\n"
        "    global CALLS\n"
        "    CALLS += 1\n"
        "    if 10 <= CALLS < 20:\n"
        "        return\n"
        "    residual += x\n"
        "    x.copy_(torch.nn.functional.rms_norm(residual, (x.shape[-1],), weight, eps))\n"
    )
    (result,) = run(["fused_add_rms_norm"], find_solution(str(file)))
    assert result.status == "wrong_numbers"


FORGES_TIMES = """
import os, sys
import torch


def run(x, weight, eps):
    frame = sys._getframe()
    while "asked" not in frame.f_locals:
        frame = frame.f_back
    there = frame.f_locals
    asked = there["asked"]
    if type(asked.request).__name__ == "TimeCalls":
        calls = len(asked.request.order)
        facts = {"name": "out", "shape": list(x.shape), "dtype": "bfloat16", "alias": None}
        times = {name: [1.0] * calls for name in ("events_us", "host_us", "lag_us")}
        result = {"outputs": [[facts]] * calls, **times}
        CHANGE
        there["send"]({"number": asked.number, "refused": [], "replaced": [], "result": result})
        os._exit(0)
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
"""


@pytest.mark.long
def test_forged_times_cost_no_other_candidate_its_result(tmp_path: Path) -> None:
    changes = {
        "empty": "result |= {name: [] for name in times}",
        "nan": "result['lag_us'] = [float('nan')] * calls",
        "dtype": "facts['dtype'] = 'load'",
    }
    solutions = [find_solution("torch-eager")]
    for name, change in changes.items():
        file = tmp_path / f"{name}.py"
        file.write_text(FORGES_TIMES.replace("CHANGE", change))
        solutions.append(find_solution(str(file)))
    found = {result.solution: result for result in run(["rms_norm"], *solutions)}
    assert found["torch-eager"].status == "passed"
    assert {found[name].status for name in changes} <= {"cheating", "crashed"}
    assert found["empty"].reason == "the reply does not cover every call"
    assert found["nan"].reason == "the reply is not a valid message"


@pytest.mark.parametrize(
    "changed",
    [
        {"outputs": []},
        {"events_us": []},
        {"host_us": [1.0]},
        {"lag_us": [1.0] * 3},
        {"span_us": [], "activities": [1, 1]},
        {"span_us": [1.0, 1.0], "activities": []},
    ],
)
def test_times_cover_every_call(changed: dict[str, Any]) -> None:
    two: list[float] = [1.0, 1.0]
    times = CallTimes(outputs=[[], []], events_us=two, host_us=two, lag_us=two)
    order = [(0, True), (1, True)]
    assert timing_gpu._timed(Mock(ask=lambda _: times), order, 1.0) is times
    short = msgspec.structs.replace(times, **changed)
    with pytest.raises(process.WorkerFailed, match="does not cover every call") as failed:
        timing_gpu._timed(Mock(ask=lambda _: short), order, 1.0)
    assert failed.value.status == "cheating"


@pytest.mark.parametrize("request_us", [0.0, 200.0, 1500.0, 20_000.0])
@pytest.mark.parametrize("call_us", [0.4, 1.5, 40.0, 5000.0, 200_000.0])
def test_a_graph_is_timed_without_what_a_request_takes(
    monkeypatch: pytest.MonkeyPatch, request_us: float, call_us: float
) -> None:
    asked = []

    def replay(_: object, times: int) -> float:
        asked.append(times)
        return request_us + 12 * call_us * times

    monkeypatch.setattr(timing_gpu, "_replay", replay)
    samples, whole_us = timing_gpu._graph_samples(Mock(), 12, 1.0)
    off = request_us if 12 * call_us > timing_gpu.GRAPH_LONG_US else 0.0
    wanted = call_us + off / 12
    assert samples == pytest.approx([wanted] * 5)
    assert whole_us == pytest.approx(call_us + request_us / 12 / max(asked))
    least = max(timing_gpu.GRAPH_SAMPLE_US, request_us)
    assert sum(asked) * 12 * call_us < 100 * least or max(asked) == 1


def test_what_a_request_takes_is_never_more_than_the_shortest() -> None:
    noisy = timing_gpu.request_us([3000.0, 9000.0, 9000.0], [9100.0, 9200.0, 9300.0], 3)
    assert noisy == 3000.0
    assert timing_gpu.request_us([3000.0], [12_000.0], 3) == 0.0


@pytest.mark.parametrize("stop_us", [3000.0, 8000.0, 50_000.0])
def test_a_worker_that_stops_in_short_runs_gains_little(
    monkeypatch: pytest.MonkeyPatch, stop_us: float
) -> None:
    """As if the request took long by itself: the time of the runs would be taken off with it."""
    monkeypatch.setattr(timing_gpu, "_replay", lambda _, times: stopping(times, 60.0, stop_us))
    samples, whole_us = timing_gpu._graph_samples(Mock(), 12, 1.0)
    assert min(samples) >= 30.0
    assert whole_us >= 60.0


def stopping(times: int, call_us: float, stop_us: float) -> float:
    return 12 * call_us * times + (stop_us if times % timing_gpu.GRAPH_PARTS else 0.0)


def test_a_call_that_claims_no_time_is_held_against_a_run_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay = Mock(return_value=12e6)
    monkeypatch.setattr(timing_gpu, "_replay", replay)
    timing_gpu._long_run(Mock(), 12, 0.0)
    (asked,) = replay.call_args_list
    assert asked.args[1] == timing_gpu.MOST_REPLAYS


@pytest.mark.parametrize(
    ("in_graph_us", "request_us", "stop_us", "status"),
    [
        pytest.param(40.0, 20_000.0, 0.0, "passed", marks=pytest.mark.long),
        pytest.param(75.0, 200.0, 0.0, "passed", marks=pytest.mark.long),
        (200.0, 200.0, 0.0, "cheating"),
        pytest.param(200.0, 200.0, 8000.0, "cheating", marks=pytest.mark.long),
    ],
)
def test_a_claim_is_held_against_the_graph(
    monkeypatch: pytest.MonkeyPatch,
    in_graph_us: float,
    request_us: float,
    stop_us: float,
    status: str,
) -> None:
    def replay(slot: WorkerSlot, times: int) -> float:
        slot.ask(ReplayGraph(1))
        return request_us + stopping(times, in_graph_us, stop_us)

    monkeypatch.setattr(timing_gpu, "_replay", replay)
    (result,) = run(["rms_norm"], find_solution("torch-eager"))
    assert result.status == status
    if status == "cheating":
        assert result.reason == "claims 40.0 us for a call that takes 200.2 us in a graph"


@pytest.mark.long
def test_a_slow_request_is_no_proof_of_a_false_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that stops for a while in every short run, not in the long one that follows."""

    def replay(slot: WorkerSlot, times: int) -> float:
        slot.ask(ReplayGraph(1))
        stopped = 40.0 * times if times < 64 else 0.0
        return 12 * (40.0 * times + stopped * 9)

    monkeypatch.setattr(timing_gpu, "_replay", replay)
    (result,) = run(["rms_norm"], find_solution("torch-eager"))
    assert result.status == "passed"


def test_a_graph_that_does_not_write_what_its_calls_returned_is_found(tmp_path: Path) -> None:
    file = tmp_path / "captures_nothing.py"
    file.write_text(
        "import torch\n"
        "from torch.utils._python_dispatch import _get_current_dispatch_mode\n"
        "KNOWN = {}\n"
        "def run(x, weight, eps):\n"
        "    if _get_current_dispatch_mode() is not None:  # as of a stream that is captured\n"
        "        return KNOWN[x.data_ptr()]\n"
        "    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)\n"
        "    KNOWN[x.data_ptr()] = out.clone()\n"
        "    return out\n"
    )
    (result,) = run(["rms_norm"], find_solution(str(file)))
    assert result.status == "wrong_numbers"


@pytest.mark.parametrize(
    "name",
    [
        "fused_add_rms_norm",
        pytest.param("gated_delta_rule_update", marks=pytest.mark.long),  # has an output, too
    ],
)
@pytest.mark.parametrize("copied", [(), (0,), (-1,), (0, -2)])
def test_updates_that_were_copied_of_some_calls_are_judged(
    monkeypatch: pytest.MonkeyPatch, name: str, copied: tuple[int, ...]
) -> None:
    def some(_sets: object, _task: object, calls: int) -> list[int]:
        return [call % calls for call in copied]

    monkeypatch.setattr(timing_gpu, "_copied", some)
    (result,) = run([name], find_solution("torch-eager"))
    assert (result.status, result.reason) == ("passed", None)
    assert result.checked_calls >= 3


def test_an_update_that_cannot_be_captured_passes_without_a_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The capture ends the worker: nobody is left to put anything back."""
    ask = WorkerSlot.ask

    def failing(self: WorkerSlot, request: Any, *, slow: bool = False) -> Any:
        if isinstance(request, CaptureGraph):
            raise process.WorkerFailed("crashed", "no capture", dead=False)
        return ask(self, request, slow=slow)

    monkeypatch.setattr(WorkerSlot, "ask", failing)
    (result,) = run(["fused_add_rms_norm"], find_solution("torch-eager"))
    assert (result.status, result.reason) == ("passed", None)
    assert result.methods["graph-v2"].reason == "cannot be captured: no capture"


def test_answers_in_place_of_what_is_put_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_gpu, "change_rows", lambda _: False)  # it would find them, too
    (result,) = run(["fused_add_rms_norm"], find_solution(str(SAMPLES / "puts_answers_back")))
    assert result.status == "cheating"
    assert result.reason == "replaced what is put back before its calls: x, residual"


IDLE_IN_GRAPHS = """
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode


def run(x, residual, weight, eps):
    rows = len(x)
    if _get_current_dispatch_mode() is not None:  # as of a stream that is captured
        rows = ROWS
    residual[:rows] += x[:rows]
    x[:rows] = torch.nn.functional.rms_norm(residual[:rows], (x.shape[-1],), weight, eps)
"""


@pytest.mark.parametrize("rows", ["0", "rows // 3"])
def test_a_graph_that_leaves_out_its_updates_is_found(tmp_path: Path, rows: str) -> None:
    file = tmp_path / "idles.py"
    file.write_text(IDLE_IN_GRAPHS.replace("ROWS", rows))
    (result,) = run(["fused_add_rms_norm"], find_solution(str(file)))
    assert (result.status, result.reason) == ("cheating", "its graph leaves x as it was")


@pytest.mark.long
def test_graphs_of_all_that_updates_in_place_pass() -> None:
    names = [one.name for one in operators() if one.task is not None and one.task.mutates]
    assert len(names) >= 5
    results = run(names, find_solution("torch-eager"))
    assert {(one.status, one.reason) for one in results} == {("passed", None)}
    assert sum("graph-v2" in one.methods for one in results) == len(names)


def test_whether_results_are_remembered_is_asked_as_samples_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a solution that remembers within a request could tell one from the other."""
    requests: list[TimeCalls] = []

    def ask(self: WorkerSlot, request: Any, *, slow: bool = False) -> Any:
        if isinstance(request, TimeCalls):
            requests.append(request)
        return asked(self, request, slow=slow)

    asked = WorkerSlot.ask
    monkeypatch.setattr(WorkerSlot, "ask", ask)
    monkeypatch.setattr(timing_gpu, "is_suspicious", lambda *_: True)
    (result,) = run(["rms_norm"], find_solution("torch-eager"))
    assert result.status == "passed"
    first, sampled, changed, *trials = requests
    assert len(first.order) == len(changed.order) == 3
    assert len(sampled.order) == 60
    assert trials
    assert all(trial == sampled for trial in trials)
