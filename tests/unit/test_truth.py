"""The numbers of the real profiles, as interval arithmetic on their raw events gives them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import solscope
from solscope.views.summary import Summary
from tests.recordings import is_whole, recording
from tests.sampling import some_rows

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"

# file, events, kernels, span ms, busy %
TRACES = [
    ("b200_eager.json.gz", 24656, 768, 84.49, 13.73),
    ("h100_qwen1.5-0.5b.json.gz", 18221, 1465, 49.65, 91.93),
    ("mi300_qwen1.5-0.5b.json.gz", 18090, 1516, 47.09, 91.46),
    ("vllm_decode_full_exec.json.gz", 1993, 425, 10.74, 99.76),
    ("vllm_prefilldecode_piecewise_exec.json.gz", 19289, 413, 156.47, 99.76),
    ("mi300_sglang_qwen3-8b_decode.json.gz", 2058, 555, 473.75, 2.06),
    ("mi300_sglang_qwen3-8b_prefilldecode.json.gz", 60315, 527, 987.29, 49.92),
    ("mi300_xdit_sd3.5.json.gz", 239093, 8042, 1171.63, 60.81),
    ("a100_hta_tracediff_control.json.gz", 109123, 8568, 464.59, 83.64),
    ("rocprofv3_908_results.json.gz", None, 43915, 15122.02, 27.99),
]
IDS = [name.split(".")[0] for name, *_ in TRACES]


@cache
def profile(name: str) -> solscope.Profile:
    return solscope.open(recording(name.removeprefix("data/")))


@cache
def summary(name: str) -> Summary:
    return solscope.summarize(solscope.attribute(profile(name)))


def near(value: float) -> object:
    return pytest.approx(value, abs=0.01)


@pytest.mark.parametrize(
    ("file", "events", "kernels", "span", "busy"), some_rows(TRACES, 2), ids=IDS
)
def test_traces(file: str, events: int | None, kernels: int, span: float, busy: float) -> None:
    found = summary(f"data/traces/{file}")
    # Recordings of the repository are without the arrows that viewers draw.
    assert events is None or found.events == events or not is_whole(f"traces/{file}")
    assert found.kernels == kernels
    assert found.gpu_span_ms == near(span)
    assert found.gpu_busy_pct == near(busy)


@pytest.mark.parametrize(
    ("file", "comm_ms", "exposed_pct"),
    [("b200_eager", 2.14, 2.53), ("a100_hta_tracediff_control", 163.54, 18.78)],
)
def test_communication(file: str, comm_ms: float, exposed_pct: float) -> None:
    found = summary(f"data/traces/{file}.json.gz")
    assert found.comm_ms == near(comm_ms)
    assert found.exposed_comm_pct == near(exposed_pct)


def test_h100_kernels_without_a_launch() -> None:
    attributed = solscope.attribute(profile("data/traces/h100_qwen1.5-0.5b.json.gz"))
    kernels = attributed.activities.filter(pl.col("kind") == "kernel")
    assert kernels["launch_row"].null_count() == 436


def test_one_graph_launch_holds_nearly_all_of_a_decode_step() -> None:
    attributed = solscope.attribute(profile("data/traces/vllm_decode_full_exec.json.gz"))
    activities, events = attributed.activities, attributed.profile.events
    name = events["name"].gather(activities["launch_row"]).cast(pl.String)
    replayed = activities.filter(name == "hipGraphLaunch")
    assert replayed["launch_row"].n_unique() == 1
    share = int(replayed["dur_ns"].sum()) / int(activities["dur_ns"].sum())
    assert 100 * share == pytest.approx(97, abs=0.5)


@pytest.mark.parametrize(
    ("stage", "names", "launches", "total_ms"),
    [("prefill", 97, 6660, 65.7), ("decode", 46, 78016, 179.1)],
)
def test_nsys_csv(stage: str, names: int, launches: int, total_ms: float) -> None:
    file = f"data/nsys/nsys_dsocr_per-stage_{stage}_cuda_gpu_kern_sum.csv"
    assert profile(file).aggregates.height == names
    assert summary(file).kernels == launches
    assert summary(file).kernel_time_ms == pytest.approx(total_ms, abs=0.05)
    assert summary(file).stage == stage


def test_nsys_sqlite() -> None:
    first, second = summary("data/nsys/h100_2gpu_1s.sqlite").per_device
    assert (first.device, second.device) == (0, 1)
    assert first.kernels == 1721
    assert first.kernel_time_ms == pytest.approx(22.385, abs=0.001)
    assert second.kernel_time_ms == pytest.approx(22.444, abs=0.001)


def test_seed_002() -> None:
    if not SEEDS.is_dir():
        pytest.skip("the seeds are not beside the repository")
    (seed,) = SEEDS.glob("002_*.txt")
    found = solscope.summarize(solscope.attribute(solscope.open(seed)))
    assert found.kernel_time_ms == near(2222.02)


# 40 steps with 5 prefills; each decode replays or launches the same 451 kernels.
@pytest.mark.parametrize(("file", "steps"), [("normal", 40), ("no_cuda_graph", 20)])
def test_h200_decode_kernels(file: str, steps: int) -> None:
    events = profile(f"data/h200/graph/{file}.trace.json.gz").events
    annotations = events.filter(pl.col("kind") == "annotation")["name"].cast(pl.String)
    assert (annotations == "engine_step").sum() == steps
    assert (annotations == "decode").sum() == steps


def test_h200_graph_replays_451_kernels() -> None:
    attributed = solscope.attribute(profile("data/h200/graph/normal.trace.json.gz"))
    kernels = attributed.activities.filter(pl.col("kind") == "kernel")
    name = attributed.profile.events["name"].gather(kernels["launch_row"]).cast(pl.String)
    per_replay = kernels.filter(name == "cudaGraphLaunch").group_by("launch_row").len()
    assert per_replay["len"].unique().to_list() == [451]
    assert per_replay.height == 40


def test_h200_metrics_lie_beside_the_trace() -> None:
    metrics = profile("data/h200/runs/normal.trace.json.gz").metrics
    assert metrics is not None
    assert "oncpu_ns" in metrics["metric"].cast(pl.String).unique().to_list()
