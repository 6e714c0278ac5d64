from __future__ import annotations

from typing import Any

import msgspec
import pytest

from solscope.attribution import Attributed
from solscope.attribution.opening import open_attributed
from solscope.errors import InputError
from solscope.profile import Device
from solscope.views.efficiency import efficiency
from solscope.views.operators import named_hardware
from tests.making import attributed, event
from tests.recordings import recording

COMMAND_LINES = ["efficiency demo:h200-normal", "efficiency --by layer demo:h200-normal"]
"""What `test_json_output.py` runs."""
MS = 1_000_000
H200 = named_hardware("H200")
PEAK, HBM = H200.peaks["tensor.bf16"].value, H200.memory["hbm.bandwidth"].value


def step(
    number: int, *, shapes: bool = True, dims: str = "[[8,4096],[4096,4096]]"
) -> list[dict[str, Any]]:
    """A product of 8 rows with 4096 x 4096 weights in 20 µs, every ms."""
    at = MS * number
    inputs = {
        "input_dims": dims,
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
    }
    return [
        event("annotation", "step[DECODE bs=8]", at, 900_000),
        event("cpu_op", "aten::mm", at, 60_000, external_id=number + 1, **inputs if shapes else {}),
        event("runtime", "cudaLaunchKernel", at + 2000, 5000, correlation=number + 1),
        event("kernel", "nvjet_tst_128x8", at + 10_000, 20_000, correlation=number + 1),
    ]


def made(*, shapes: bool = True, name: str = "NVIDIA H200", **sizes: str) -> Attributed:
    events = [e for number in range(5) for e in step(number, shapes=shapes, **sizes)]
    return attributed(*events, devices=(Device(0, name=name),))


def test_mfu_and_mbu_by_hand() -> None:
    (row,) = efficiency(made()).rows
    # Four steps to the next start; the last one has no step time.
    mean = 1.0
    flop, weights = 2 * 8 * 4096 * 4096, 2 * 4096 * 4096
    assert row.time_ms == pytest.approx(mean)
    assert row.gpu_ms == pytest.approx(0.02)
    assert row.mfu_pct == pytest.approx(100 * flop / PEAK / (mean / 1e3))
    assert row.mbu_pct == pytest.approx(100 * weights / HBM / (mean / 1e3))
    assert row.hbm_pct is not None
    assert row.mbu_pct is not None
    assert row.hbm_pct > row.mbu_pct
    assert row.tokens_per_s == pytest.approx(8 / (mean / 1e3))
    assert row.cost_pct == 100


def test_the_speed_of_light_is_the_sum_of_bounds() -> None:
    (row,) = efficiency(made()).rows
    assert row.sol_ms is not None
    assert row.overlap_sol_ms is not None
    assert row.sol_ms >= row.overlap_sol_ms > 0
    assert row.sol_pct == pytest.approx(100 * row.sol_ms / row.time_ms)


def test_memory_takes_no_longer_than_the_bounds() -> None:
    """A small product writes more than it reads, into a cache."""
    (row,) = efficiency(made(dims="[[4096,16],[16,4096]]")).rows
    assert row.hbm_pct is not None
    assert row.sol_pct is not None
    assert 0 < row.hbm_pct <= row.sol_pct


def test_a_peak_that_is_not_known_is_not_infinitely_fast() -> None:
    peaks = {name: peak for name, peak in H200.peaks.items() if name != "tensor.bf16"}
    (row,) = efficiency(made(), msgspec.structs.replace(H200, peaks=peaks)).rows
    assert (row.cost_pct, row.sol_ms, row.overlap_sol_ms) == (0, None, None)


def test_steps_add_up_to_their_phase() -> None:
    (phase,) = efficiency(made()).rows
    *steps, last = efficiency(made(), by="step").rows
    assert [row.count for row in steps] == [1] * 4
    assert last.time_ms == pytest.approx(0.02)
    assert sum(row.time_ms for row in steps) == pytest.approx(phase.time_ms * phase.count)
    assert phase.tflop
    assert sum(row.tflop or 0 for row in steps) == pytest.approx(phase.tflop * phase.count)


def test_without_shapes_rates_are_not_known() -> None:
    (row,) = efficiency(made(shapes=False)).rows
    assert row.cost_pct == 0
    assert (row.tflop, row.model_gb, row.all_gb) == (None, None, None)
    assert (row.mfu_pct, row.mbu_pct, row.sol_ms, row.overlap_sol_ms) == (None,) * 4


def test_what_has_no_gpu_or_no_step_is_refused() -> None:
    with pytest.raises(InputError, match="GPU is not known"):
        efficiency(made(name="Acme 1"))
    with pytest.raises(InputError, match="no layers"):
        efficiency(made(), by="layer")


@pytest.mark.parametrize("name", ["h200/models/qwen3moe4l.trace.json.gz"])
def test_real_steps_use_less_than_the_peak(name: str) -> None:
    found = open_attributed(str(recording(name)))
    for by in ("phase", "layer"):
        for row in efficiency(found, by=by).rows:
            assert row.mfu_pct is not None
            assert row.mbu_pct is not None
            assert 0 < row.mfu_pct < 100
            assert 0 < row.mbu_pct < 100
            assert row.sol_pct is not None
            assert max(row.mfu_pct, row.mbu_pct) <= row.sol_pct < 100
    phases = {row.name: row for row in efficiency(found).rows}
    assert (phases["prefill"].mfu_pct or 0) > (phases["decode"].mfu_pct or 0)
