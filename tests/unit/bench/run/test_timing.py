"""Which calls are timed, and on which values."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.base import SETS  # noqa: E402
from solscope.bench.catalog import find_solution  # noqa: E402
from solscope.bench.pool import arena as memory  # noqa: E402
from solscope.bench.pool.inputs import InputSets  # noqa: E402
from solscope.bench.run import timed_calls, timing_cpu  # noqa: E402
from solscope.bench.run.reference import CPU_EFFORT  # noqa: E402
from solscope.bench.run.timing import OperatorTiming, Plan, Trial  # noqa: E402
from solscope.bench.worker.messages import (  # noqa: E402
    CallSets,
    DescribeOutputs,
    Done,
    Request,
    SetupTimes,
)
from solscope.operators import operator  # noqa: E402
from solscope.operators.task import Draw  # noqa: E402


def test_sizes_that_a_draw_decides_are_those_of_the_draws_that_are_timed() -> None:
    one = operator("fused_moe")
    assert one.task is not None
    realized = one.task.realized
    assert realized is not None
    axes = {"tokens": 6, "hidden": 16, "intermediate": 8, "experts": 128, "top_k": 4}
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(one, [[]], arenas)
    stage.run(axes, set(), Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    timed = [one.task.inputs(axes, Draw(seed=seed)) for seed in stage.seeds[-SETS:]]
    experts = sorted(realized(axes, inputs)["active_experts"] for inputs in timed)
    assert stage.realized == {**axes, "active_experts": experts[1]}
    for arena in arenas.values():
        arena.close()


def test_processes_that_may_tune_warm_up_alone_and_choose_for_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = operator("rms_norm")
    assert one.task is not None
    code, choice = tmp_path / "ab" / "kernel.py", tmp_path / "ab" / "kernel.best_config"
    code.parent.mkdir()
    code.touch()
    choice.touch()
    (tmp_path / "x.best_config" / "y").mkdir(parents=True)  # by one who means to end the run
    names = ["torch-compile", "fla", "torch-compile", "liger"]
    slots = [MagicMock(shown=()) for _ in names]
    for number, (name, slot) in enumerate(zip(names, slots, strict=True)):
        slot.candidate.solution = find_solution(name)
        slot.candidate.key = f"{name} {number}"
        slot.ask.return_value = SetupTimes()
        slot.compiler_cache = tmp_path
    asked = []

    def ask_all(group: list[Mock], request: Request[Any]) -> list[tuple[Mock, Done]]:
        if isinstance(request, CallSets):
            asked.append([slot.candidate.key for slot in group])
            assert code.exists()
            assert choice.exists() == ("torch-compile" not in asked[-1][0])
            choice.touch()
        return [(slot, Done()) for slot in group]

    monkeypatch.setattr("solscope.bench.run.timing.ask_all", ask_all)
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(one, [slots], arenas)
    keys = {slot.candidate.key for slot in slots}
    axes = {"tokens": 4, "hidden": 8}
    stage.run(axes, keys, Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    assert asked == [["torch-compile 0"], ["fla 1"], ["torch-compile 2"], ["liger 3"]]
    for arena in arenas.values():
        arena.close()


def test_what_compiles_beside_other_work_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process of each candidate fills the cache and ends; those that are timed are new."""
    events: list[tuple[str, str]] = []

    def slot(name: str, restart: int) -> Any:
        made = MagicMock()
        made.candidate.solution = find_solution(name)
        made.candidate.key = name
        made.name = f"{name} {restart}"
        made.ask.side_effect = lambda request, **_: events.append(
            (type(request).__name__, made.name)
        )
        return made

    def ask_all(group: list[Any], request: Request[Any]) -> list[tuple[Any, Done]]:
        events.extend((type(request).__name__, slot.name) for slot in group)
        return [(slot, Done()) for slot in group]

    def close(group: list[Any]) -> None:
        events.extend(("close", slot.name) for slot in group)

    monkeypatch.setattr("solscope.bench.run.timing.ask_all", ask_all)
    monkeypatch.setattr("solscope.bench.run.timing.close", close)
    slots = [[slot(name, restart) for name in ("torch-compile", "liger")] for restart in range(2)]
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(operator("rms_norm"), slots, arenas)
    stage.start([{"tokens": 2, "hidden": 8}])
    compiled = [(what, "torch-compile 0") for what in ("BindInputs", "CallSets", "FreeShape")]
    assert events[:4] == [*compiled, ("close", "torch-compile 0")]
    assert sorted(events[4:]) == sorted(
        ("StartProfiler", one.name) for group in slots for one in group
    )
    events.clear()
    stage.be_ready()
    assert not events, "what hung or crashed is not tried again and again"
    stage.close()
    events.clear()
    stage.be_ready()
    assert len(events) == 4, "what was ended to make room"
    stage.close()
    slots[0][1].ask.side_effect = RuntimeError("no memory")
    stage.be_ready()
    slots[0][1].close.assert_called_once_with()
    for one in (one for group in slots for one in group):
        one.spawner.stop.assert_not_called()  # what is wrong shows at the first shape
    for arena in arenas.values():
        arena.close()


def test_the_set_that_is_always_judged_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where references are slow one set is judged, and a solution cannot know which."""
    monkeypatch.setattr("solscope.bench.run.timing.MAX_REFERENCES_S", -1.0)
    one = operator("rms_norm")
    assert one.task is not None
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(one, [[]], arenas)
    axes = {"tokens": 4, "hidden": 8}
    sets = InputSets(arenas["inputs"], one.task)
    sets.draw(axes, SETS)
    judged = set()
    for _ in range(60):
        references, spent = stage._right(axes, sets, CPU_EFFORT)
        (index,) = [at for at, wanted in enumerate(references) if wanted is not None]
        judged.add(index)
        assert spent >= 0
    assert judged == set(range(SETS))
    for arena in arenas.values():
        arena.close()


def test_every_restart_has_values_of_its_own() -> None:
    one = operator("rms_norm")
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(one, [[], [], []], arenas)
    stage.run({"tokens": 4, "hidden": 8}, set(), Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    assert len(set(stage.seeds)) == SETS * (1 + 3)  # the draw to warm up on, and one per restart
    for arena in arenas.values():
        arena.close()


@pytest.mark.parametrize("once", [False, True], ids=["timed", "seen first"])
def test_large_values_are_let_go_before_workers_need_the_memory(
    monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    held: list[int] = []

    def warm(_self: OperatorTiming, _slots: Any, sets: InputSets, _by: Any) -> None:
        held.append(len(sets._held))

    monkeypatch.setattr("solscope.bench.pool.inputs.HELD_BYTES", 0)
    monkeypatch.setattr(OperatorTiming, "_warm", warm)
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(operator("rms_norm"), [[]], arenas)
    axes = {"tokens": 4, "hidden": 8}
    if once:
        stage.warm_up(axes, set())
    else:
        stage.run(axes, set(), Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    assert held == [0]
    for arena in arenas.values():
        arena.close()


def test_sets_are_counted_where_calls_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """All three sets have a reference; calls were made, and compared, on two of them."""
    monkeypatch.setattr("solscope.bench.run.timing.ask_all", lambda *_: [])
    monkeypatch.setattr("solscope.bench.run.check.check_shapes", lambda *_: None)
    monkeypatch.setattr(timed_calls, "_check_set", lambda *_: None)
    slot = MagicMock(shown=())
    slot.candidate.key = "mine"
    slot.ask.return_value = SetupTimes()
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}

    def sample(trial: Trial) -> None:
        assert None not in trial.references
        timed_calls.check_calls(trial, [[], [], []], [0, 2, 0])

    monkeypatch.setattr("solscope.bench.run.timing.MAX_REFERENCES_S", 1e9)
    stage = OperatorTiming(operator("rms_norm"), [[slot]], arenas)
    axes = {"tokens": 4, "hidden": 8}
    measured = stage.run(axes, {"mine"}, Plan(("cpu-v1",)), CPU_EFFORT, sample)["mine"]
    assert (measured.verdict.ok, measured.sets_checked) == (True, 2)
    for arena in arenas.values():
        arena.close()


def test_outputs_are_described_when_the_clock_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    now = [0.0]

    def ask(request: object) -> Mock:
        asked.append(request)
        now[0] += 1.0 if isinstance(request, DescribeOutputs) else 0.25
        return Mock(outputs=[["facts"]])

    monkeypatch.setattr(timing_cpu, "time", Mock(perf_counter=lambda: now[0]))
    trial = Mock(slot=Mock(ask=ask), task=operator("rms_norm").task)
    wall_us, outputs = timing_cpu._wall(trial, [2, 0, 2])
    assert asked == [CallSets([2, 0, 2], keep=True), DescribeOutputs([0, 2])]
    assert wall_us == 250_000.0
    assert len(outputs) == 1
