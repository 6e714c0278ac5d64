"""The evaluator's parts: catalog, workloads, shared memory, spans of a recording, statistics."""

from __future__ import annotations

from ctypes import c_void_p
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")

from solscope.bench import memory  # noqa: E402
from solscope.bench.bounds import shape_bound  # noqa: E402
from solscope.bench.catalog import built_in, find_solution  # noqa: E402
from solscope.bench.check import draw_rows  # noqa: E402
from solscope.bench.correctness import CPU_EFFORT, OperatorCheck  # noqa: E402
from solscope.bench.device_timer import spans  # noqa: E402
from solscope.bench.inputs import InputSets, Repeated  # noqa: E402
from solscope.bench.machine import PACKAGES  # noqa: E402
from solscope.bench.sensors import Card, Reading, Watch  # noqa: E402
from solscope.bench.statistics import is_noisy, quantile, timing  # noqa: E402
from solscope.bench.timing import SETS, OperatorTiming, Plan, recalled  # noqa: E402
from solscope.bench.workloads import beside, choose, scaled, workloads  # noqa: E402
from solscope.capture.base import MissingSensorError  # noqa: E402
from solscope.errors import InputError, UsageError  # noqa: E402
from solscope.hardware import find  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.task import Draw  # noqa: E402
from solscope.operators.tasks.paging import STALE  # noqa: E402

# --- Solutions


def test_eager_solutions_exist_for_all_operators_and_compile_is_the_same_files() -> None:
    eager, compiled = find_solution("torch-eager"), find_solution("torch-compile")
    assert set(workloads()) <= set(eager.operators())
    assert compiled.file("rms_norm") == eager.file("rms_norm")
    assert compiled.hash("rms_norm") != eager.hash("rms_norm")
    assert {"torch-eager", "torch-compile"} <= set(built_in().names())


def test_a_folder_is_a_solution_and_helpers_change_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "my_kernels"
    folder.mkdir()
    (folder / "rms_norm.py").write_text("from _help import run\n")
    (folder / "_help.py").write_text("run = None\n")
    (folder / "l2_norm.cu").write_text("// kernel\n")
    found = find_solution(str(folder))
    assert (found.name, found.operators()) == ("my-kernels", ["l2_norm", "rms_norm"])
    before = found.hash("rms_norm")
    (folder / "_help.py").write_text("run = 1\n")
    assert found.hash("rms_norm") != before
    entry = found.stage("l2_norm", tmp_path / "staged")
    assert entry.name == "l2_norm_entry.py"
    compile(entry.read_text(), entry.name, "exec")
    assert {p.name for p in entry.parent.iterdir()} == {
        "l2_norm.cu",
        "l2_norm_entry.py",
        "_help.py",
    }


def test_a_solution_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'torch-eager'"):
        find_solution("torch-eagre")
    with pytest.raises(InputError, match="no such file"):
        find_solution(str(tmp_path / "none.py"))
    (tmp_path / "solution.toml").write_text("titel = 1\n")
    with pytest.raises(InputError, match="titel"):
        find_solution(str(tmp_path))


# --- Workloads


def test_weights_of_an_operator_and_importance_of_all_add_up_to_one() -> None:
    found = workloads()
    assert len(found) == 30
    assert sum(shapes[0].importance for shapes in found.values()) == pytest.approx(1)
    for shapes in found.values():
        assert sum(one.weight for one in shapes) == pytest.approx(1)


def test_shapes_are_chosen_by_id_or_by_weight() -> None:
    listed = workloads()["rms_norm"]
    assert [one.shape for one in choose(listed, "3,1")] == ["3", "1"]
    top = choose(listed, "top2")
    assert min(one.weight for one in top) >= sorted(one.weight for one in listed)[-2]
    with pytest.raises(UsageError, match="no shape"):
        choose(listed, "1,400")


def test_cases_beside_a_shape_are_small_and_vary_what_may_vary() -> None:
    op = operator("rms_norm")
    cases = list(beside(op, {"tokens": 4096, "hidden": 1024}, 1e6))
    assert {case.axes["hidden"] for case in cases} == {1024}
    assert {"extreme inputs", "ties inputs", "empty inputs"} <= {case.label for case in cases}
    tokens = {case.axes["tokens"] for case in cases if case.variant == "typical"}
    assert tokens == {1, 65, 127, 129}
    assert all(op.cost(case.axes).bytes <= 1.1e6 for case in cases)


def test_sequences_are_scaled_by_their_lengths() -> None:
    op = operator("unified_attention")
    axes = {**workloads()["unified_attention"][0].axes, "sequences": [[256, 256, 130]]}
    assert scaled(op, axes, 0.25)["sequences"] == [[64, 64, 4]]


# --- Shared memory


def test_tensors_keep_their_strides_in_an_arena() -> None:
    arena = memory.Arena("cpu")
    source = torch.arange(24.0).view(4, 6).t()[1:5]
    arena.reserve(4096)
    spec = memory.place(arena, source, 512)
    found = memory.view(arena, spec)
    assert found.stride() == source.stride()
    assert torch.equal(found, source)
    before = memory.fingerprint(found)
    found[2, 1] += 1
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


def test_a_twin_is_written_again_as_a_twin() -> None:
    task = operator("chunk_delta_rule_output").task
    assert task is not None
    sizes = dict.fromkeys(("v_heads", "q_heads", "key_dim", "value_dim"), 8)
    sets = InputSets(memory.Arena("cpu"), task)
    sets.draw({"sequences": 1, "tokens": 100, "chunk_size": 64, **sizes}, 1)
    drawn = sets.tensors(0)["q"].clone()
    sets.repeat_rows(0, [Repeated("q", dim=1, row=7, to=3)])
    twin = sets.tensors(0)["q"].clone()
    assert torch.equal(twin[:, 3], drawn[:, 7])
    assert torch.equal(twin[:, 4:], drawn[:, 4:])
    assert sets.changed(0) == []
    sets.tensors(0)["q"].fill_(1.0)
    assert sets.changed(0) == ["q"]
    sets.restore(0)
    assert torch.equal(sets.tensors(0)["q"], twin)
    assert sets.changed(0) == []
    sets.redraw(0)
    assert not torch.equal(sets.tensors(0)["q"], twin)
    sets.restore(0)
    assert torch.equal(sets.tensors(0)["q"], twin)
    sets.arena.close()


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("unified_attention", {"sequences": [[9, 41, 3], [7, 7, 1]], "block_size": 16}),
        ("paged_attention_decode", {"contexts": [[41, 3], [7, 1]], "block_size": 16}),
        ("mla_decode_attention", {"contexts": [[200, 3], [7, 1]]}),
    ],
)
def test_twins_of_a_paged_cache_hold_no_stale_data(name: str, axes: dict[str, Any]) -> None:
    """A finite value for masked scores is right as long as no true score is far below it."""
    found = operator(name)
    assert found.task is not None
    heads = {"q_heads": 4, "kv_heads": 2, "head_dim": 8, "latent_dim": 16, "rope_dim": 8}
    axes |= {key: value for key, value in heads.items() if key in found.axes}
    arenas = {what: memory.Arena("cpu") for what in ("inputs", "outputs")}
    stage = OperatorCheck(found, [], Mock(), arenas, Mock())
    sets = InputSets(arenas["inputs"], found.task)
    twins = 0
    for turn in range(40):
        sets.draw(axes, 1)
        before = {key: value.clone() for key, value in sets.tensors(0).items() if "cache" in key}
        stage._twin(sets, inner=turn % 2 == 1)
        twins += any(not torch.equal(sets.tensors(0)[key], before[key]) for key in before)
        outputs = found.task.reference(**sets.copies(0))
        assert all(value.abs().max() < STALE / 100 for value in outputs.values())
        assert found.task.whole is not None
        for key, rows in found.task.whole(sets.tensors(0)).items():
            clean = (before[key] != STALE).flatten(1).all(1).nonzero().flatten()
            assert sorted(rows.tolist()) == clean.tolist()
    assert twins > 30
    for arena in arenas.values():
        arena.close()


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


def test_processes_that_may_tune_warm_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = operator("rms_norm")
    assert one.task is not None
    names = ["torch-compile", "fla", "torch-compile", "liger"]
    seats = [Mock() for _ in names]
    for number, (name, seat) in enumerate(zip(names, seats, strict=True)):
        seat.candidate.solution = find_solution(name)
        seat.candidate.key = f"{name} {number}"
        seat.ask.return_value = {"setup_us": []}
    asked = []

    def ask_all(group: list[Mock], do: str, _: object) -> list[tuple[Mock, dict[str, Any]]]:
        if do == "calls":
            asked.append([seat.candidate.key for seat in group])
        return [(seat, {}) for seat in group]

    monkeypatch.setattr("solscope.bench.timing.ask_all", ask_all)
    arenas = {"inputs": memory.Arena("cpu"), "outputs": memory.Arena("cpu")}
    stage = OperatorTiming(one, [seats], arenas)
    keys = {seat.candidate.key for seat in seats}
    axes = {"tokens": 4, "hidden": 8}
    stage.run(axes, keys, Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    compiled = ["torch-compile 0", "torch-compile 2"]
    assert [group for group in asked if group] == [compiled, ["fla 1"], ["liger 3"]]
    asked.clear()
    monkeypatch.setattr("solscope.bench.timing.SET_BYTES_TO_WARM_TOGETHER", 0)
    stage.run(axes, keys, Plan(("cpu-v1",)), CPU_EFFORT, lambda *_: None)
    assert sorted(group for group in asked if group) == sorted([key] for key in keys)
    for arena in arenas.values():
        arena.close()


def test_a_fingerprint_sees_every_change_of_small_tensors() -> None:
    arena = memory.Arena("cpu")
    arena.reserve(1 << 10)
    found = memory.view(arena, memory.place(arena, torch.tensor([7, 7, 7], dtype=torch.uint8), 0))
    before = memory.fingerprint(found)
    found.copy_(torch.tensor([9, 6, 7], dtype=torch.uint8))  # 1 x 7 + 2 x 7 = 1 x 9 + 2 x 6
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


def test_a_fingerprint_sees_swapped_values_in_large_tensors() -> None:
    arena = memory.Arena("cpu")
    arena.reserve(1 << 20)
    memory.place(arena, torch.arange(100_000, dtype=torch.int64), 0)
    found = arena.at(0, [100_000], torch.int64)
    before = memory.fingerprint(found)
    found[10], found[50_000] = int(found[50_000]), int(found[10])
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


# --- Spans of a recording


class Event(NamedTuple):
    what: str
    start: int
    length: int
    device: str = "DeviceType.CUDA"

    def name(self) -> str:
        return self.what

    def device_type(self) -> str:
        return self.device

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.length


def test_a_call_is_what_lies_between_its_spins_on_any_stream() -> None:
    events = [
        Event("cudaLaunchKernel", 0, 5, "DeviceType.CPU"),
        Event("reduce", 0, 90),
        Event("void spin_kernel(long)", 100, 50),
        Event("side", 140, 30),
        Event("main", 160, 40),
        Event("void spin_kernel(long)", 300, 5),
        Event("reduce", 400, 90),
        Event("void spin_kernel(long)", 500, 50),
        Event("main", 560, 20),
        Event("void spin_kernel(long)", 600, 5),
    ]
    assert spans(events, 2) == {
        "span_us": [0.06, 0.02],
        "busy_us": [0.07, 0.02],
        "activities": [2, 1],
    }
    assert "for 3 calls" in spans(events, 3)["span_reason"]
    assert "without any device activity" in spans([events[2], events[5]], 1)["span_reason"]


# --- Statistics, rows, bounds


def test_quantiles_and_noise() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert not is_noisy([100.0, 100.5, 101.0, 100.2])
    found = timing([[1.0, 2.0], [3.0]], "events", 1)
    assert (found.median_us, found.samples_per_restart, found.noisy) == (2.0, [2, 1], True)


def test_remembered_results_are_told_from_noise() -> None:
    assert recalled([500.0, 510.0, 505.0], [100.0, 101.0, 99.0], 50)
    assert not recalled([500.0, 120.0, 505.0], [100.0, 101.0, 99.0], 50)
    assert not recalled([8.0, 9.0, 8.0], [3.0, 3.0, 3.0], 50)


def test_rows_hold_both_ends_and_are_drawn_anew() -> None:
    assert draw_rows(5) == [0, 1, 2, 3, 4]
    first, second = draw_rows(10_000), draw_rows(10_000)
    assert len(set(first)) == 64
    assert (first[0], first[-1]) == (0, 9_999)
    assert first != second


def test_a_bound_needs_a_device_and_names_what_it_is() -> None:
    op, axes = operator("rms_norm"), {"tokens": 4096, "hidden": 5120}
    assert shape_bound(op, axes, axes, None).reason == "no hardware file describes this device"
    found = shape_bound(op, axes, axes, find("H200"))
    read = (4096 * 5120 + 5120) * 2
    assert found.limiter == "hbm"
    assert found.bound_us == pytest.approx(read / 4.8e12 * 1e6)
    assert found.published_us == pytest.approx((2 * read - 5120 * 2) / 4.8e12 * 1e6)
    assert found.bound_us is not None
    assert found.measured_bound_us is not None
    assert found.measured_bound_us > found.bound_us
    assert shape_bound(op, axes, axes, find("H200"), published=False).published_us is None


def test_sensors_are_those_of_the_gpu_that_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine:
        gpus = "ab"

        def devices(self) -> list[c_void_p]:
            return [c_void_p(ord(name)) for name in self.gpus]

        def by_uuid(self, uuid: str) -> c_void_p | None:
            return c_void_p(ord(uuid)) if uuid in self.gpus else None

    monkeypatch.setattr("solscope.bench.sensors.Nvml", Machine)
    assert Card("b")._device.value == ord("b")
    for unknown in (None, "c"):
        with pytest.raises(MissingSensorError, match="which of 2 GPUs"):
            Card(unknown)
    monkeypatch.setattr(Machine, "gpus", "a")
    assert Card(None)._device.value == ord("a")


def test_versions_of_every_package_that_a_solution_needs_are_recorded() -> None:
    stated = {name for one in built_in() for name in one.about.dependencies}
    needed = {name.partition("==")[0] for name in stated}
    assert "sglang" in needed
    assert needed - {"einops", "ninja", "nvidia-ml-py", "packaging", "requests"} <= set(PACKAGES)


def test_sensors_give_the_readings_of_their_windows() -> None:
    watch = Watch("cpu")
    assert watch.during([(0.0, 1.0)]).reason == "no GPU is used"
    watch.readings = [Reading(at, 1000 + at, 2000, 300, 50, 4) for at in (1.0, 2.0, 3.0, 9.0)]
    found = watch.during([(1.5, 4.0)])
    assert found.sm_clock_mhz == [1002.0, 1002.5, 1003.0]
    assert found.throttle == ["power cap"]
