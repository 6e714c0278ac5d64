"""What the stages of a run do beside their work: build solutions, and give memory back."""

from __future__ import annotations

import fcntl
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import CUDA_BUILD  # noqa: E402
from solscope.bench.pool.process import WorkerFailed  # noqa: E402
from solscope.bench.run.check import Verdict  # noqa: E402
from solscope.bench.run.correctness import Checked, OperatorCheck  # noqa: E402
from solscope.bench.run.evaluate import Evaluation  # noqa: E402
from solscope.bench.run.timing import Measured, OperatorTiming  # noqa: E402
from solscope.bench.worker.messages import BindInputs, FreeShape, SetupTimes  # noqa: E402
from solscope.errors import MissingToolError  # noqa: E402
from solscope.operators import operator  # noqa: E402

# --- Building


@pytest.mark.parametrize(
    "text",
    [CUDA_BUILD.format(source="k.cu", name="one", function=name) for name in ("run", "copy")],
    ids=["entry", "template"],
)
def test_a_build_that_was_killed_does_not_stop_the_next(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch waits for its lock file for good; one of a process that is gone stays there."""
    from torch.utils import cpp_extension

    lock = tmp_path / "lock"
    lock.touch()

    def build(**options: Any) -> Mock:
        assert options["build_directory"] == str(tmp_path)
        assert not lock.exists()
        with (tmp_path / "builder").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Mock(run="built", copy="built")

    monkeypatch.setattr(cpp_extension, "CUDA_HOME", "/usr/local/cuda")
    monkeypatch.setattr(cpp_extension, "load", build)
    monkeypatch.setenv("SOLSCOPE_BUILD_FOLDER", str(tmp_path))
    names: dict[str, Any] = {"__file__": str(tmp_path / "entry.py")}
    exec(text, names)
    assert "built" in names.values()


def test_an_error_of_ours_while_solutions_are_built_is_not_a_finding() -> None:
    stage = OperatorCheck(operator("rms_norm"), [], Mock(), {"inputs": Mock(device="cpu")}, Mock())
    slots: list[Any] = [Mock(candidate=Mock(key=str(number))) for number in range(3)]
    slots[0].worker.side_effect = WorkerFailed("crashed", "no such module", dead=False)
    slots[2].candidate.solution.about.language = "cuda"
    stage.slots = slots
    stage.found = {slot.candidate.key: Checked() for slot in slots}
    stage.build()
    told = [found.everywhere and found.everywhere.status for found in stage.found.values()]
    assert told == ["crashed", None, None]
    slots[2].close.assert_called_once_with()
    slots[1].worker.side_effect = MissingToolError("a worker process did not start")
    with pytest.raises(MissingToolError, match="did not start"):
        stage.build()
    assert stage.found["1"].everywhere is None


# --- Memory that is short


def test_all_processes_of_a_candidate_that_failed_give_back_what_they_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only the one that failed, and not those of others."""
    (first, other), (second, _) = slots = [
        [Mock(candidate=Mock(key=key)) for key in ("large", "small")] for _ in range(2)
    ]
    replies = [(first, WorkerFailed("oom", "full", dead=False)), (other, SetupTimes([1.0]))]
    monkeypatch.setattr("solscope.bench.run.timing.ask_all", lambda *_: replies)
    stage = OperatorTiming(operator("rms_norm"), slots, {})
    found = {key: Measured() for key in ("large", "small")}
    stage._ask_all([first, other], BindInputs([]), found)
    assert [found[key].verdict.status for key in found] == ["oom", "passed"]
    for slot in (first, second):
        slot.clean_up.assert_called_once_with(FreeShape())
    other.clean_up.assert_not_called()


def test_processes_that_rest_end_only_where_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = [100]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free[0], 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    work = Mock()
    run = Mock(shapes=[Mock(axes=10), Mock(axes=20)])
    run.operator.cost = lambda axes: Mock(bytes=axes)

    def free_memory(device: str, done: list[Any]) -> list[str]:
        work.reset_mock()
        evaluation = Mock(options=Mock(device=device))
        evaluation._make_room = partial(Evaluation._make_room, evaluation)
        Evaluation._free_memory(evaluation, run, done, work.spawner)
        return [name for name, _, _ in work.mock_calls]

    assert free_memory("cuda", [work.stage]) == ["stage.close", "spawner.settle"]
    assert not free_memory("cuda", [])
    assert not free_memory("cpu", [work.stage])
    free[0] = 140
    assert not free_memory("cuda", [work.stage])


def evaluation(**more: Any) -> Any:
    """One with the methods that are tried, and nothing else."""
    made = Mock(memory_budget=Mock(is_shared=True), **more)
    for name in ("_time", "_time_shape", "_prepare", "_seen_first"):
        setattr(made, name, partial(getattr(Evaluation, name), made))
    return made


def timed(made: Any, stage: Any, shapes: list[Any], inputs: Any = None, **more: Any) -> list[str]:
    """What timing some shapes of one operator does, in order."""
    events: list[str] = []
    run = Mock(shapes=shapes, checked={"a": Mock()}, candidates=[Mock(key="a")], **more)
    run.operator.cost = lambda _: Mock(bytes=1)
    made._standing.return_value = run.candidates
    made._due = lambda *_: True
    made._write.side_effect = lambda _: events.append("line")
    for name in ("be_ready", "warm_up", "free", "rest"):
        getattr(stage, name).side_effect = lambda *_, name=name: events.append(name)
    room = partial(events.append, "make room")
    made._time(run, stage, float("inf"), {"inputs": inputs or Mock()}, Mock(), room)
    return events


@pytest.mark.parametrize("shared", [True, False])
def test_what_the_evaluator_had_no_memory_for_is_timed_again_where_others_had_it(
    shared: bool,
) -> None:
    made, stage, shape = evaluation(), Mock(), Mock(axes=1)
    made.memory_budget.is_shared = shared
    stage.run.side_effect = [torch.OutOfMemoryError("CUDA out of memory"), {"a": Measured()}]
    found = timed(made, stage, [shape], rehearsed=[], heaviest=1)
    if shared:
        assert found == ["be_ready", "free", "make room", "line", "rest"]
    else:
        assert found == ["be_ready", "free", "line", "rest"]


def test_another_error_of_the_evaluator_is_not_tried_again() -> None:
    made, stage = evaluation(), Mock()
    stage.run.side_effect = [ValueError("no such size"), {"a": Measured()}]
    found = timed(made, stage, [Mock(axes=1)], rehearsed=[], heaviest=1)
    assert found == ["be_ready", "free", "line", "rest"]


def test_no_memory_for_all_shapes_at_once_is_no_end() -> None:
    made, stage = evaluation(), Mock()
    stage.run.return_value = {"a": Measured()}
    inputs = Mock()
    inputs.reserve.side_effect = torch.OutOfMemoryError("CUDA out of memory")
    found = timed(made, stage, [Mock(axes=1)], inputs, rehearsed=[], heaviest=1)
    assert found == ["make room", "be_ready", "line", "rest"]


def test_a_compiler_that_is_timed_has_seen_the_same_sizes_first() -> None:
    made, stage = evaluation(), Mock()
    stage.run.return_value = {"a": Measured()}
    timed(made, stage, [Mock(axes=7)], rehearsed=[1, 2], heaviest=7)
    assert stage.warm_up.call_args_list == [call(1, {"a"}), call(2, {"a"}), call(7, set())][:2]
    stage.warm_up.reset_mock()
    timed(made, stage, [Mock(axes=5)], rehearsed=[1, 2], heaviest=7)
    assert stage.warm_up.call_args_list == [call(1, {"a"}), call(2, {"a"}), call(7, {"a"})]


def test_a_process_that_hangs_in_warm_ups_has_passed_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hangs end a candidate; they do not make the next verdict one for all shapes."""
    stage = OperatorCheck(operator("rms_norm"), [], Mock(), {"inputs": Mock(device="cpu")}, Mock())
    slots: list[Any] = [Mock(candidate=Mock(key=str(number))) for number in range(2)]
    stage.found = {slot.candidate.key: Checked() for slot in slots}
    sets, shape = Mock(specs=[], seeds=[]), Mock(axes={"tokens": 4, "hidden": 8})
    hung = WorkerFailed("timeout", "no answer", dead=True)
    monkeypatch.setattr(
        "solscope.bench.run.correctness.ask_all",
        lambda asked, _: [(slot, hung if slot is slots[0] else Mock()) for slot in asked],
    )
    shape.shape = "1"
    assert stage._warm(shape, slots, sets) == slots
    stage._note(slots[0], shape, Verdict(), sets, "full")
    shape.shape = "2"
    assert stage._warm(shape, slots, sets) == slots[1:]
    first, second = stage.found.values()
    assert first.verdict("1").ok
    assert (first.verdict("2").status, first.verdict("3").status) == ("timeout", "timeout")
    second.timeouts = 2
    stage._note(slots[1], shape, Verdict(), sets, "full")
    assert not second.knows("3")
