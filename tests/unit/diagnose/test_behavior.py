from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import solscope
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.observe import observe
from solscope.diagnose.observe.behavior import observe_cycles
from solscope.errors import InputError
from solscope.readers.packed import Observations
from tests import making

DATA = Path(__file__).parents[2] / "data" / "behavior"


def observed(name: str) -> Observations:
    return observe(solscope.attribute(solscope.open(DATA / f"{name}_perf_data.csv")))


@pytest.mark.parametrize("name", ["normal", "abnormal", "layers"])
def test_tiles_add_up_to_every_cycle(name: str) -> None:
    run = observed(name)
    for at, step in enumerate(run.steps):
        assert sum(tile.ns[at] for tile in run.tiles) == step.wall_ns


def test_cycles_are_steps() -> None:
    run = observed("normal")
    assert run.anchor == "Scheduler.run_batch"
    assert [step.wall_ns for step in run.steps][:2] == [100_000_000, 102_000_000]
    # 64 products, 32 attentions and 4 copies; in cycles 2, 4 and 5 also two fills.
    assert [step.activities for step in run.steps] == [100, 102, 100, 102, 102, 100]
    assert run.steps[1].start_ns == 100_250_250


def test_kernels_did_not_change_and_the_host_got_slower() -> None:
    normal, abnormal = observed("normal"), observed("abnormal")
    kernels = [{k.name: k.p50_ns for k in run.kernels} for run in (normal, abnormal)]
    assert kernels[1]["gemm_bf16_64x64_tn"] == pytest.approx(
        kernels[0]["gemm_bf16_64x64_tn"], rel=0.001
    )
    writes = [next(o for o in run.host_ops if o.name == "write") for run in (normal, abnormal)]
    assert writes[1].p50_ns / writes[0].p50_ns == pytest.approx(3.64, abs=0.05)


def test_readings_by_cycle_come_before_samples_of_another_unit() -> None:
    run = observed("normal")
    (clock,) = [c for c in run.counters if c.name == "cpu_frequency"]
    assert clock.readings == [87.6, 87.7, 87.5, 87.6, 87.7, 87.5]


def test_states_of_threads_become_counts_that_grow() -> None:
    run = observed("normal")
    (counter,) = [c for c in run.counters if c.name == "oncpu_ns"]
    assert counter.grows
    assert np.diff(counter.values)[0] == pytest.approx(1.6 * 102_000_000 + 200_000)


def test_more_gpu_time_than_cycle_is_cut_down(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    header = "cycle,function_name,device,beta_pct,anchor_name,anchor_dur_us,instances_count\n"
    rows = "1,f,GPU 0,80,step,1000,2\n1,g,GPU 0,70,step,1000,1\n"
    path.write_text(header + rows, encoding="utf-8")
    run = observe(solscope.attribute(solscope.open(path)))
    assert sum(tile.ns[0] for tile in run.tiles) == 1_000_000
    assert sum(k.ns[0] for k in run.kernels) == 1_500_000
    assert sum(k.exposed_ns[0] for k in run.kernels) <= 1_000_000


def test_waiting_calls_are_told_from_the_rest_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    header = "cycle,function_name,func_type,device,beta_pct,anchor_name,anchor_dur_us\n"
    rows = (
        "1,f,gpu_compute,GPU 0,40,step,1000\n1,cudaStreamSynchronize,cpu_sync,Host,25,step,1000\n"
    )
    path.write_text(header + rows, encoding="utf-8")
    run = observe(solscope.attribute(solscope.open(path)))
    idle = {tile.name: tile.ns[0] for tile in run.tiles if tile.kind == "idle"}
    assert idle == {"sync": 250_000, "host": 350_000}
    assert [(c.kind, c.calls, c.ns) for c in run.host_calls] == [("sync", [1], [250_000])]


def test_a_trace_has_no_cycles() -> None:
    attributed = making.attributed(making.event("kernel", "f", 0, 10))
    with pytest.raises(InputError, match="no cycles in this file"):
        observe_cycles(attributed)


def csv(tmp_path: Path, name: str, anchor: str, calls: dict[str, int], cycles: int = 12) -> Path:
    """Cycles of 1 ms in which each function takes 50 us per call."""
    rows = ["cycle,function_name,device,beta_pct,anchor_name,anchor_dur_us,instances_count"]
    rows += [
        f"{cycle},{function},GPU 0,{5 * count},{anchor},{1000 + cycle % 3},{count}"
        for cycle in range(cycles)
        for function, count in calls.items()
    ]
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def diagnosed(normal: Path, abnormal: Path) -> Diagnosis:
    runs = [solscope.attribute(solscope.open(path)) for path in (normal, abnormal)]
    return diagnose_runs(runs[0], runs[1])


def test_a_slower_cpu_is_named_where_the_classic_report_blames_a_kernel() -> None:
    found = diagnosed(DATA / "normal_perf_data.csv", DATA / "abnormal_perf_data.csv")
    assert found.verdict == "regression"
    assert found.ratio == pytest.approx(3.51, abs=0.01)
    assert found.causes[0].id == "cpu_slow"
    assert "CPU clock 22 (normal 88)" in found.causes[0].evidence
    assert found.unit == "cycle of Scheduler.run_batch"
    (clock,) = [c for c in found.counters if c.name == "cpu_frequency"]
    assert (clock.unit, clock.part) == ("as recorded", "driver")
    assert sum(c.delta_ms for c in found.components) == pytest.approx(found.delta_ms, rel=1e-9)


def test_a_step_against_a_layer_is_converted_with_the_factor_shown() -> None:
    found = diagnosed(DATA / "normal_perf_data.csv", DATA / "layers_perf_data.csv")
    assert found.comparability.factor == pytest.approx(4.0)
    assert "one normal unit holds 4 abnormal ones" in found.comparability.reasons[0]
    assert found.ratio == pytest.approx(3.5, abs=0.02)
    assert found.causes[0].id == "cpu_slow"
    # Pieces of a step have quantiles of their own, and are not more work.
    assert (found.scope, found.tails, found.outliers) == ("mean", [], None)
    assert found.normal.p99_ms is not None
    assert found.abnormal.p50_ms is found.abnormal.p99_ms is None
    host = next(c for c in found.components if c.component == "idle.host")
    assert host.count_effect_ms == pytest.approx(0.0, abs=1e-9)
    assert host.duration_effect_ms == pytest.approx(host.delta_ms)


def test_unlike_units_without_a_common_factor_are_refused(tmp_path: Path) -> None:
    normal = csv(tmp_path, "a", "step", {"f": 8, "g": 4, "h": 2})
    abnormal = csv(tmp_path, "b", "layer", {"f": 1, "g": 3, "h": 2})
    found = diagnosed(normal, abnormal)
    assert found.verdict == "cannot_compare"
    assert "unlike units (step; layer)" in found.sentence
    assert found.ratio is None


def test_another_name_for_the_same_unit_is_no_obstacle(tmp_path: Path) -> None:
    calls = {"f": 8, "g": 4}
    found = diagnosed(csv(tmp_path, "a", "step", calls), csv(tmp_path, "b", "run_step", calls))
    assert found.verdict == "no_change"


def test_of_several_gpus_the_busiest_is_observed(tmp_path: Path) -> None:
    path = csv(tmp_path, "a", "step", {"f": 8})
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "1,g,GPU 1,30,step,1001,1\n", encoding="utf-8")
    run = observe(solscope.attribute(solscope.open(path)))
    assert [kernel.name for kernel in run.kernels] == ["f"]


def test_of_two_processes_one_is_observed(tmp_path: Path) -> None:
    text = (DATA / "normal_perf_data.csv").read_text(encoding="utf-8")
    head, *rows = text.splitlines()
    # The second process has its cycles a little later, and twice as long.
    second = [
        row.replace(",805580,", ",805999,").replace(",100000.0000,", ",200000.0000,")
        for row in rows
    ]
    path = tmp_path / "two_perf_data.csv"
    path.write_text("\n".join([head, *rows, *second]) + "\n", encoding="utf-8")
    run = observe(solscope.attribute(solscope.open(path)))
    alone = observed("normal")
    assert [step.wall_ns for step in run.steps] == [step.wall_ns for step in alone.steps]
    assert run.run.processes == 2
