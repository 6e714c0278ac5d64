from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import solscope
from solscope.diagnose.behavior import anchor_of, observe_cycles
from solscope.diagnose.observations import Observations
from solscope.diagnose.observe import observe
from solscope.diagnose.sampling import readings
from solscope.errors import InputError
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
    assert anchor_of(run) == "Scheduler.run_batch"
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
    assert readings(clock) == [87.6, 87.7, 87.5, 87.6, 87.7, 87.5]


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
    with pytest.raises(InputError, match="holds no cycles"):
        observe_cycles(attributed)
