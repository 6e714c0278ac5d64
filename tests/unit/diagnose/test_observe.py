from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from solscope.attribution import Attributed, attribute
from solscope.diagnose.observe import observe
from solscope.diagnose.observe.host_line import host_lines
from solscope.errors import DamagedFileError, InputError
from solscope.events import METRIC_SCHEMA, THREAD
from solscope.profile import Device, Profile, ProfileWarning
from solscope.readers.packed import Observations, load, save
from tests.making import aggregate, event, profile
from tests.recordings import attributed_recording

RUNS = Path(__file__).parents[4] / "shared" / "data" / "h200"
GEMM = "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT"
COPY = "Memcpy DtoH (Device -> Pageable)"


def tiles(observations: Observations) -> dict[str, list[int]]:
    return {f"{tile.kind} {tile.name}": tile.ns for tile in observations.tiles}


def closes(observations: Observations) -> bool:
    sums = [
        sum(tile.ns[at] for tile in observations.tiles) for at in range(len(observations.steps))
    ]
    return sums == [step.wall_ns for step in observations.steps]


def two_steps(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """A product at 100 and one at 1100, each launched in a step 60 ns before it runs."""
    events = []
    for number, start in enumerate((0, 1000), start=1):
        events += [
            event("annotation", "decode_step", start, 900),
            event("annotation", "schedule", start + 10, 20),
            event("runtime", "cudaLaunchKernel", start + 40, 20, correlation=number),
            event("kernel", GEMM, start + 100, 200, correlation=number, grid="8,1,1"),
        ]
    return [*events, *more]


def test_a_step_is_tiled_by_what_the_launching_thread_did() -> None:
    seen = observe(attribute(profile(*two_steps())))
    assert [step.wall_ns for step in seen.steps] == [1000, 200]
    assert {name: ns[0] for name, ns in tiles(seen).items()} == {
        "compute gemm": 200,
        "idle host:decode_step": 600 + 10 + 10,
        "idle between_steps": 100,
        "idle host:schedule": 20,
        "idle launch_call": 20,
        "idle launch_wait": 40,
    }
    assert closes(seen)


def test_the_last_step_and_a_cut_one_are_not_whole() -> None:
    assert [step.whole for step in observe(attribute(profile(*two_steps()))).steps] == [True, False]


def test_of_activities_that_overlap_the_first_has_the_time_and_compute_goes_before_copies() -> None:
    seen = observe(
        attribute(
            profile(
                *two_steps(
                    event("runtime", "cudaMemcpyAsync", 50, 5, correlation=7),
                    event("memcpy", COPY, 250, 100, correlation=7, bytes=64, stream=9),
                    event("runtime", "cudaLaunchKernel", 56, 5, correlation=8),
                    event("kernel", "softmax_warp_forward", 280, 50, correlation=8, stream=8),
                )
            )
        )
    )
    found = {name: ns[0] for name, ns in tiles(seen).items()}
    assert (found["compute gemm"], found["compute softmax"]) == (200, 30)
    assert found["memcpy DtoH pageable"] == 350 - 330
    assert closes(seen)
    softmax = next(k for k in seen.kernels if k.category == "softmax")
    assert (softmax.ns[0], softmax.exposed_ns[0], softmax.calls[0]) == (50, 30, 1)
    copy = next(k for k in seen.kernels if k.category == "memcpy")
    assert (copy.bytes, copy.ns[0], copy.exposed_ns[0]) == (64, 100, 20)


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("cudaStreamSynchronize", "idle sync"),
        ("cudaMalloc", "idle alloc"),
    ],
)
def test_time_in_calls_is_told_from_time_in_the_section_around_them(name: str, tile: str) -> None:
    found = tiles(observe(attribute(profile(*two_steps(event("runtime", name, 400, 150))))))
    assert found[tile][0] == 150
    assert found["idle host:decode_step"][0] == 620 - 150


@pytest.mark.parametrize(("name", "tile"), [("gc", "idle gc"), ("fsync log", "idle io")])
def test_annotations_can_name_a_cause(name: str, tile: str) -> None:
    found = tiles(observe(attribute(profile(*two_steps(event("annotation", name, 500, 300))))))
    assert found[tile][0] == 300


def test_sections_calls_and_operators_of_the_host() -> None:
    seen = observe(
        attribute(
            profile(*two_steps(event("cpu_op", "aten::mm", 1035, 30, input_dims="[[4,8],[8,2]]")))
        )
    )
    step, schedule = seen.sections
    assert (step.name, step.ns[0], step.own_ns[0]) == ("decode_step", 800 + 100, 880)
    assert (schedule.name, schedule.calls, schedule.ns[0]) == ("schedule", [1, 0], 20)
    assert step.op_ns[0] == 30
    launches = next(call for call in seen.host_calls if call.kind == "launch")
    assert launches.calls == [1, 0]
    operator = next(op for op in seen.host_ops if op.name == "aten::mm")
    assert (operator.calls, operator.p50_ns) == (1, 30)
    assert seen.kernels[0].dtype == "bf16"
    assert seen.kernels[0].grids == {"8,1,1": 2}


def with_metrics(*samples: tuple[int, str, float]) -> Attributed:
    made = profile(*two_steps(), unix_offset_ns=5000)
    table = pl.DataFrame(
        [{"t_ns": t, "metric": m, "device": None, "value": v} for t, m, v in samples],
        schema=METRIC_SCHEMA,
    )
    return attribute(Profile(**{**made.__dict__, "metrics": table}))


def test_samples_are_cut_to_the_steps_and_counted_once() -> None:
    seen = observe(
        with_metrics(
            (5099, "runq_ns", 10.0),
            (5100, "runq_ns", 11.0),
            (5600, "runq_ns", 31.0),
            (5600, "runq_ns", 31.0),
            (6300, "runq_ns", 51.5),
            (6301, "runq_ns", 90.0),
            (5200, "cpu_frequency", 2100.0),
            (5700, "cpu_frequency", 2100.0),
        )
    )
    frequency, queue = seen.counters
    assert (queue.name, queue.grows, queue.n, queue.values) == ("runq_ns", True, 3, [0, 20, 40.5])
    assert (frequency.name, frequency.grows, frequency.n) == ("cpu_frequency", False, 2)
    assert frequency.values == [2100]


def test_a_saved_run_comes_back_as_it_was(tmp_path: Path) -> None:
    seen = observe(attribute(profile(*two_steps())))
    for name in ("run.json", "run.json.zst"):
        assert load(save(seen, tmp_path / name)) == seen


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"solscope_observations": 9}'])
def test_what_is_not_ours_is_refused(tmp_path: Path, data: bytes) -> None:
    for name in ("run.json", "run.json.zst"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DamagedFileError):
            load(tmp_path / name)


def test_a_summary_has_no_time_line() -> None:
    with pytest.raises(InputError, match="no GPU activity"):
        observe(
            aggregate({"kind": "kernel", "name": GEMM, "calls": 1, "total_ns": 5, "mean_ns": 5})
        )


@pytest.mark.skipif(not RUNS.is_dir(), reason="../shared/data is not here")
@pytest.mark.parametrize("name", ["runs/normal", "runs/cpu_throttle", "graph/normal"])
def test_real_runs_close_and_are_small(name: str, tmp_path: Path) -> None:
    seen = observe(attributed_recording(RUNS / f"{name}.trace.json.gz"))
    assert closes(seen)
    assert save(seen, tmp_path / "run.json.zst").stat().st_size < 20_000
    assert {c.name for c in seen.counters} >= {"oncpu_ns", "runq_ns", "gpu_sm_frequency"}


def test_gpus_that_are_not_described_are_not_told_apart() -> None:
    def gpus(device: Device) -> list[str]:
        return observe(attribute(profile(*two_steps(), devices=(device,)))).run.gpus

    assert gpus(Device(0, vendor="nvidia")) == []
    assert gpus(Device(0, vendor="amd", arch="gfx942")) == ["AMD GPU (gfx942)"]
    assert gpus(Device(3, vendor="amd", arch="gfx942")) == ["AMD GPU (gfx942)"]
    assert gpus(Device(0, name="NVIDIA H200")) == ["NVIDIA H200"]


def test_a_file_that_breaks_off_before_its_kernels_says_so() -> None:
    made = profile(event("op", "aten::mm", 0, 10))
    cut = dataclasses.replace(made, warnings=(ProfileWarning("truncated", "it ends"),))
    with pytest.raises(InputError, match="breaks off before any GPU activity"):
        observe(attribute(cut))
    with pytest.raises(InputError, match="no GPU activity with a time line"):
        observe(attribute(made))
    samples = dataclasses.replace(made, warnings=(ProfileWarning("metrics_only", "no trace"),))
    with pytest.raises(InputError, match="samples only; pass the trace"):
        observe(attribute(samples))


@pytest.mark.parametrize("missing", ["start_ns", "dur_ns"])
def test_events_without_a_time_are_on_no_line(missing: str) -> None:
    table = pl.DataFrame(
        {"section": ["a", "b"], "name": ["cudaDeviceSynchronize"] * 2, "start_ns": [0, 100]}
        | {"dur_ns": [50, 50], **{column: [1, 1] for column in THREAD}}
    ).with_columns(pl.when(pl.col("section") == "a").then(pl.col(missing)).alias(missing))
    (line,) = host_lines(table, table).lines.values()
    assert line.edges.tolist() == [0, 50]
    assert line.labels == ["sync"]
