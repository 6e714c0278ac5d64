"""The verdict: what it names, from which figures, and what it does not claim."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import solscope
from solscope.attribution import Attributed, attribute
from solscope.profile import ProfileWarning
from solscope.views.device_time import device_times
from solscope.views.summary import summarize
from solscope.views.typical_step import TypicalStep, typical_step
from solscope.views.verdict import Verdict
from solscope.views.verdict_words import percent_text
from tests.making import aggregate, attributed, event, profile
from tests.recordings import attributed_recording

MS = 1_000_000
GEMM, NORM, RELU = "nvjet_tst_128x8", "rms_norm_kernel", "vectorized_elementwise_kernel"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
REAL = Path(__file__).parents[4] / "shared" / "data"


def verdict(*events: dict[str, Any], **metadata: Any) -> Verdict:
    return summarize(attributed(*events, **metadata)).verdict


def ran(
    kind: str, name: str, start: int, dur: int, number: int, *, at: int | None = None, **more: Any
) -> list[dict[str, Any]]:
    """An activity and its launch of 1 µs, which begins at `at`, or 1 µs before the activity."""
    call = "cudaLaunchKernel" if kind == "kernel" else "cudaMemcpyAsync"
    begun = start - 1000 if at is None else at
    launch = event("runtime", call, begun, 1000, correlation=number)
    return [launch, {**event(kind, name, start, dur, **more), "correlation": number}]


def kernel(name: str, start: int, dur: int, number: int, **more: Any) -> list[dict[str, Any]]:
    return ran("kernel", name, start, dur, number, **more)


def typical(*events: dict[str, Any]) -> TypicalStep:
    made = attributed(*events)
    found = typical_step(made, device_times(made))
    assert found is not None
    return found


def step(start: int, dur: int) -> dict[str, Any]:
    return event("annotation", "decode_step", start - 2000, dur)


def figures(found: Verdict) -> dict[str, tuple[float, str, str]]:
    return {one.name: (round(one.value, 6), one.unit, one.scope) for one in found.figures}


# --- Idle time


def test_launch_bound() -> None:
    """20 kernels of 10 µs, one every 100 µs, each launched 1 µs before it starts."""
    found = verdict(
        step(0, 2 * MS), *(e for i in range(20) for e in kernel(GEMM, 100_000 * i, 10_000, i + 1))
    )
    assert found.kind == "launch_bound"
    assert found.sentence == (
        "The GPU is busy for 10 % of the decode step; it waits 1.69 of 1.91 ms for the host, which "
        "launches a kernel every 96 µs while one runs for 10 µs (launch-bound)."
    )
    assert figures(found) == {
        "decode step": (1.91, "ms", "the only one"),
        "GPU busy": (round(100 * 0.2 / 1.91, 6), "%", "of the step"),
        "waiting for the host": (round(19 * 0.089, 6), "ms", "of the step"),
    }
    assert found.next == "solscope hotspots made.json"
    assert (found.phase, found.steps) == ("decode", 1)
    assert found.busy_pct == pytest.approx(100 * 0.2 / 1.91)


def test_one_long_wait_is_not_launch_bound() -> None:
    events = [*kernel(GEMM, 0, 1 * MS, 1), *kernel(GEMM, 9 * MS, 1 * MS, 2)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "host_bound"
    assert found.sentence == (
        "The GPU is busy for 20 % of the decode step; it waits 8.0 of 10.0 ms for the host, "
        "8.0 ms of that in one gap."
    )


def test_time_between_steps_counts_and_is_named() -> None:
    """Three steps of 1 ms that start every 4 ms."""
    found = verdict(
        *(e for i in range(3) for e in [step(4 * MS * i, MS), *kernel(GEMM, 4 * MS * i, MS, i + 1)])
    )
    assert found.kind == "host_bound"
    assert found.sentence == (
        "The GPU is busy for 25 % of a decode step; it waits 3.00 of 4.00 ms for the host, 3.00 ms "
        "of that between steps."
    )
    assert found.steps == 2
    assert figures(found)["decode step"] == (4.0, "ms", "mean of 2 of 3 steps")


def test_synchronizing_call() -> None:
    wait = event("runtime", "cudaDeviceSynchronize", 1 * MS, 8 * MS - 1000)
    events = [*kernel(GEMM, 0, 1 * MS, 1), wait, *kernel(GEMM, 9 * MS, 1 * MS, 2)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "sync"
    assert "for 8.0 of 10.0 ms it waits while the host is in a synchronizing call" in found.sentence


def test_allocation() -> None:
    wait = event("runtime", "cudaMalloc", 1 * MS, 8 * MS - 1000)
    events = [*kernel(GEMM, 0, 1 * MS, 1), wait, *kernel(GEMM, 9 * MS, 1 * MS, 2)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "alloc"
    assert "it waits while the host allocates or frees memory" in found.sentence


def test_launched_but_not_started() -> None:
    events = [*kernel(GEMM, 0, 1 * MS, 1), *kernel(GEMM, 9 * MS, 1 * MS, 2, at=500_000)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "launch_latency"
    assert "for 8.0 of 10.0 ms the next kernel is launched but has not started" in found.sentence


def test_gaps_inside_a_graph() -> None:
    """A graph of 100 kernels of 3 µs with 1 µs between them."""
    launch = event("runtime", "cudaGraphLaunch", -5000, 4000, correlation=1)
    kernels = [{**event("kernel", GEMM, 4000 * i, 3000), "correlation": 1} for i in range(100)]
    found = verdict(step(-4000, 10_000), launch, *kernels)
    assert found.kind == "graph_gaps"
    assert found.sentence == (
        "The GPU is busy for 75 % of the decode step; for 0.10 of 0.40 ms nothing runs between the "
        "kernels of a graph (100 kernels of 3.0 µs on average)."
    )


def test_several_causes_are_listed() -> None:
    """4 ms of 10 ms wait for the host, 3 ms for a launched kernel."""
    events = [
        *kernel(GEMM, 0, 1 * MS, 1),
        *kernel(GEMM, 5 * MS, 1 * MS, 2, at=5 * MS - 1000),
        *kernel(GEMM, 9 * MS, 1 * MS, 3, at=5 * MS + 1000),
    ]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "mixed_idle"
    assert figures(found)["idle"] == (7.0, "ms", "of the step")
    assert found.sentence == (
        "The GPU is busy for 30 % of the decode step; it is idle for 7.0 of 10.0 ms: 4.0 ms "
        "waiting for the host, 3.0 ms between launch and start."
    )


def test_without_launches_no_cause_is_claimed() -> None:
    events = [event("kernel", GEMM, 0, 1 * MS), event("kernel", GEMM, 9 * MS, 1 * MS)]
    found = verdict(*events)
    assert found.kind == "unexplained_idle"
    assert found.sentence == (
        "The GPU is busy for 20 % of the recording; for 8.0 of 10.0 ms it is idle, and why is not "
        "known: the profile has no launch calls."
    )
    assert found.steps == 0


# --- Nothing computes


def test_exposed_communication_names_the_collective() -> None:
    events = [*kernel(GEMM, 0, 4 * MS, 1), *kernel(REDUCE, 4 * MS, 6 * MS, 2, at=0)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "exposed_comm"
    assert found.sentence == (
        "The GPU computes for 40 % of the decode step; 6.0 of 10.0 ms are all-reduce that no "
        "compute hides."
    )
    assert [one.name for one in found.figures] == [
        "decode step",
        "GPU computes",
        "exposed communication",
    ]


def test_hidden_communication_is_no_loss() -> None:
    events = [*kernel(GEMM, 0, 10 * MS, 1), *kernel(REDUCE, 1 * MS, 8 * MS, 2, stream=9)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "gpu_bound"


def test_exposed_copies_name_their_direction() -> None:
    copy = ran("memcpy", "Memcpy HtoD (Pinned -> Device)", 1 * MS, 9 * MS, 2, at=0)
    found = verdict(step(0, 10 * MS), *kernel(GEMM, 0, 1 * MS, 1), *copy)
    assert found.kind == "exposed_copies"
    assert found.sentence == (
        "The GPU computes for 10 % of the decode step; 9.0 of 10.0 ms are copies from host to GPU "
        "that no compute hides."
    )


def test_copies_of_the_main_direction_are_a_part_of_the_figure() -> None:
    """8 of 9 ms of exposed copies go from the host to the GPU, on each of two GPUs."""
    events = []
    for device in (0, 1):
        events += [
            {**event("kernel", GEMM, 0, 1 * MS), "device": device},
            {**event("memcpy", "Memcpy HtoD (Pinned -> Device)", MS, 8 * MS), "device": device},
            {**event("memcpy", "Memcpy DtoD (Device -> Device)", 9 * MS, MS), "device": device},
        ]
    found = verdict(*events)
    assert found.sentence == (
        "Each GPU computes for 10 % of the recording; 9.0 of 10.0 ms are memory copies that no "
        "compute hides, 8.0 ms of that copies from host to GPU (mean of 2 GPUs)."
    )
    assert figures(found)["exposed copies"] == (9.0, "ms", "of the recording")


def test_copies_share_exposed_time() -> None:
    """A copy that runs under another one or under a kernel is not counted twice."""
    found = typical(
        event("memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 6 * MS),
        event("memcpy", "Memcpy DtoH (Device -> Pinned)", 4 * MS, 4 * MS, stream=9),
        event("kernel", GEMM, 7 * MS, 3 * MS),
    )
    assert found.exposed_copies_ns == {"HtoD": 6 * MS, "DtoH": 1 * MS}
    assert found.exposed_copy_ns == 7 * MS


# --- The GPU is busy


def test_one_kind_of_kernel_dominates() -> None:
    events = [*kernel(GEMM, 0, 7 * MS, 1), *kernel(NORM, 7 * MS, 3 * MS, 2, at=0)]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "gpu_bound"
    assert found.sentence == (
        "The GPU is busy for 100 % of the decode step (10.0 ms); 70 % of its GPU time is GEMMs; "
        "shapes were not recorded, so whether that is fast needs the model's config."
    )
    assert found.figures[-1].name == "GEMMs"
    # Without shapes no operator has a bound: its layers say more.
    assert found.next == "solscope layers made.json"


def test_nothing_stands_out() -> None:
    events = [
        *kernel(GEMM, 0, 4 * MS, 1),
        *kernel(NORM, 4 * MS, 3 * MS, 2, at=0),
        *kernel(RELU, 7 * MS, 3 * MS, 3, at=1000),
    ]
    found = verdict(step(0, 10 * MS), *events)
    assert found.kind == "nothing_stands_out"
    assert "no kind of kernel dominates: GEMMs 40 %, element-wise and copy kernels 30 %" in (
        found.sentence
    )


# --- What changes a headline


def test_a_stray_kernel_does_not_make_the_gpu_idle() -> None:
    """As a warm-up kernel half a second before the recorded work."""
    early = kernel(GEMM, -500 * MS, 1000, 99)
    work = [e for i in range(30) for e in kernel(GEMM, MS * i, MS, i + 1, at=1000 * i)]
    found = summarize(attributed(*early, *work))
    assert found.gpu_busy_pct is not None
    assert found.gpu_busy_pct < 10
    assert found.verdict.kind == "gpu_bound"
    assert found.verdict.busy_pct == pytest.approx(100)


def test_steps_much_longer_than_usual_are_left_out_and_mentioned() -> None:
    lengths = [50, *[5] * 5]
    starts = [sum(lengths[:i]) * MS for i in range(len(lengths))]
    found = verdict(
        *(
            e
            for i, (at, length) in enumerate(zip(starts, lengths, strict=True))
            for e in [step(at, length * MS - 9000), *kernel(GEMM, at, length * MS - 9000, i + 1)]
        )
    )
    assert found.steps == 4
    assert "1 of 6 steps takes 10.0 times as long and is not counted" in found.sentence


def test_a_file_that_breaks_off() -> None:
    made = profile(step(0, MS), *kernel(GEMM, 0, MS, 1))
    cut = replace(made, warnings=(ProfileWarning("truncated", "the file ends early"),))
    found = summarize(attribute(cut)).verdict
    assert found.sentence.endswith("; the file is truncated, so this covers only its first part.")


def test_the_profiler_itself() -> None:
    events = [*kernel(GEMM, 0, 1 * MS, 1), *kernel(GEMM, 9 * MS, 1 * MS, 2)]
    overhead = event("overhead", "Activity Buffer Request", 2 * MS, 2 * MS)
    found = verdict(step(0, 10 * MS), *events, overhead)
    assert found.sentence.endswith("; the profiler itself takes 20 % of the time.")


# --- Without a time line


def test_a_summary_says_only_what_it_can() -> None:
    rows = [
        {"kind": "kernel", "name": GEMM, "calls": 10, "total_ns": 6 * MS},
        {"kind": "kernel", "name": NORM, "calls": 10, "total_ns": 4 * MS},
    ]
    found = summarize(aggregate(*rows)).verdict
    assert found.kind == "no_timeline"
    assert found.sentence == (
        "Of 10.0 ms of kernel time, 60 % is GEMMs; a summary has no timeline, so idle time is not "
        "known."
    )
    assert found.next == "solscope kernels made.csv"
    assert found.busy_pct is None


def test_nothing_ran() -> None:
    found = verdict(event("cpu_op", "aten::mm", 0, 10))
    assert (found.kind, found.sentence) == ("no_gpu_work", "Nothing ran on a GPU.")
    assert (found.figures, found.next) == ([], None)


def test_only_sensor_samples() -> None:
    alone = ProfileWarning("metrics_only", "the file has sensor samples only, no GPU activity")
    made = replace(profile(event("cpu_op", "aten::mm", 0, 10)), warnings=(alone,))
    found = summarize(attribute(made)).verdict
    assert found.sentence == "This file has only sensor samples; GPU activity was not recorded."


def test_a_launch_interval_and_its_run_time_are_over_the_same_activities() -> None:
    """A kernel of 10 µs, then a copy of 20 µs, each 100 µs after the one before."""
    copy = "Memcpy DtoD (Device -> Device)"
    found = verdict(
        step(0, 4 * MS),
        *(
            e
            for i in range(20)
            for e in [
                *kernel(GEMM, 200_000 * i, 10_000, 2 * i + 1),
                *ran("memcpy", copy, 200_000 * i + 100_000, 20_000, 2 * i + 2),
            ]
        ),
    )
    assert found.kind == "launch_bound"
    assert "launches a kernel or copy every 98 µs while one runs for 15 µs" in found.sentence


def test_steps_that_are_little_of_the_recording() -> None:
    """Steps of 5 ms, then 75 ms without a step in which the GPU is mostly idle."""
    steps = [[step(5 * MS * i, 4 * MS), *kernel(GEMM, 5 * MS * i, 5 * MS, i + 1)] for i in range(5)]
    rest = [e for i in range(8) for e in kernel(GEMM, (25 + 10 * i) * MS, MS, 100 + i)]
    found = verdict(*(e for one in steps for e in one), *rest)
    assert re.search(r"; these steps are \d+ % of the recording", found.sentence)


@pytest.mark.parametrize(
    ("pct", "said"),
    [
        (0, "0 %"),
        (0.03, "<0.1 %"),
        (0.3, "0.3 %"),
        (50, "50 %"),
        (99.7, "99.7 %"),
        (99.97, ">99.9 %"),
        (100, "100 %"),
    ],
)
def test_a_share_never_rounds_to_none_or_all(pct: float, said: str) -> None:
    assert percent_text(pct) == said


def test_a_device_without_a_step_of_the_phase_says_nothing_about_it() -> None:
    """Rank 0 only prefills, rank 1 decodes in steps of 10 ms, which take most time."""
    prefill = [
        {**e, "rank": 0}
        for e in [
            event("annotation", "prefill_step", -2000, 50 * MS),
            *kernel(GEMM, 0, 50 * MS, 1),
        ]
    ]
    decode = [
        {**e, "rank": 1, "device": 1 if e["kind"] == "kernel" else None}
        for i in range(10)
        for e in [step(10 * MS * i, 9 * MS), *kernel(GEMM, 10 * MS * i, 10 * MS, i + 2)]
    ]
    found = typical(*prefill, *decode)
    assert (found.basis.phase, found.devices) == ("decode", 1)
    assert found.wall_ns == 10 * MS


def test_two_devices_are_means() -> None:
    other = [
        {**event("kernel", GEMM, 0, 1 * MS), "device": 1},
        {**event("kernel", GEMM, 9 * MS, 1 * MS), "device": 1},
    ]
    found = verdict(event("kernel", GEMM, 0, 10 * MS), *other)
    assert found.busy_pct == pytest.approx((100 + 20) / 2)


# --- Facts add up on real profiles


@pytest.mark.parametrize(
    "name",
    [
        "traces/mi300_sglang_qwen3-8b_decode.json.gz",
        "traces/a100_hta_tracediff_control.json.gz",
        "h200/graph/normal.trace.json.gz",
        "h200/ranks/tp4-slow_gpu/rank2.trace.json.zst",
        "nsys/h100_2gpu_1s.sqlite",
    ],
)
def test_a_real_step_adds_up(name: str) -> None:
    if not (REAL / name).exists():
        pytest.skip(f"{name} is not here")
    real: Attributed = attributed_recording(REAL / name)
    found = typical_step(real, device_times(real))
    assert found is not None
    assert sum(found.idle.by_cause.values()) == pytest.approx(found.wall_ns - found.busy_ns, abs=1)
    parts = found.compute_ns + found.exposed_comm_ns + found.exposed_copy_ns
    assert parts == pytest.approx(found.busy_ns, abs=1)
    assert all(
        found.idle.between[cause] <= found.idle.by_cause[cause] + 1 for cause in found.idle.between
    )
    whole = real.steps.filter(~pl.col("cut"))
    assert found.basis.steps + found.basis.left_out.outlier <= max(1, whole.height)


def test_a_real_step_is_busy_though_its_recording_is_not() -> None:
    path = REAL / "traces" / "mi300_sglang_qwen3-8b_decode.json.gz"
    if not path.exists():
        pytest.skip("the profile is not here")
    found = summarize(solscope.attribute(solscope.open(path)))
    assert found.gpu_busy_pct == pytest.approx(2.06, abs=0.01)
    assert found.verdict.busy_pct == pytest.approx(93.48, abs=0.01)
    assert found.verdict.kind == "gpu_bound"
