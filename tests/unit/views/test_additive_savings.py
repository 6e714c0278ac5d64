"""No set of rows of a work list promises more than a step has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solscope.attribution import Attributed
from solscope.intervals import alone, union
from solscope.views.efficiency import efficiency
from solscope.views.hotspots import Hotspot, hotspots, hotspots_by_phase
from solscope.views.hotspots.additive import additive
from solscope.views.operators import hardware_of
from tests.making import attributed, event
from tests.recordings import attributed_recording, recording
from tests.sampling import some

US = 1000
REAL = (
    "traces/h100_qwen1.5-0.5b.json.gz",
    "traces/mi300_qwen1.5-0.5b.json.gz",
    "traces/b200_eager.json.gz",
    "traces/vllm_decode_full_exec.json.gz",
    "traces/a100_hta_tracediff_control.json.gz",
    "h200/graph/normal.trace.json.gz",
    "h200/ranks/tp4-slow_gpu/rank2.trace.json.zst",
    "nsys/h100_2gpu_1s.sqlite",
)


def row(kind: str, time_us: float, saved_us: float) -> Hotspot:
    return Hotspot(
        rank=0, kind=kind, operator=kind, role=None, axes=None, calls_per_step=1.0,  # type: ignore[arg-type]
        time_us=time_us, bound_us=None, limiter=None, expected_us=None, efficiency_pct=None,
        recoverable_us=saved_us, recoverable_pct_of_step=saved_us, confidence="low", why="why",
        advice="",
    )  # fmt: skip


def saved(rows: list[Hotspot]) -> dict[str, float]:
    return {row.kind: row.recoverable_us for row in rows}


def test_communication_hides_only_under_the_computing_that_is_left() -> None:
    """40 us of computing, 25 of which a faster kernel saves: 15 are left for 60 us of a link."""
    rows = [row("comm", 60.0, 60.0), row("operator", 40.0, 25.0)]
    found = additive(rows, compute_us=40.0, step_us=100.0)
    assert saved(found) == {"operator": 25.0, "comm": 15.0}
    assert [each.kind for each in found] == ["operator", "comm"]
    assert "only 15.00 µs of computing is left to hide it under" in found[1].why
    assert found[1].recoverable_pct_of_step == pytest.approx(15.0)


def test_computing_that_hides_communication_already_hides_no_more() -> None:
    found = additive([row("comm", 60.0, 50.0)], compute_us=40.0, step_us=100.0)
    assert saved(found) == {"comm": 30.0}
    assert saved(additive([row("comm", 60.0, 20.0)], 80.0, 100.0)) == {"comm": 20.0}


def test_copies_can_also_be_left_out() -> None:
    rows = [row("comm", 30.0, 30.0), row("copy", 20.0, 20.0)]
    assert saved(additive(rows, compute_us=10.0, step_us=75.0)) == {"copy": 20.0, "comm": 10.0}


def test_the_step_is_the_most_that_all_rows_save() -> None:
    found = additive([row("idle", 70.0, 70.0), row("imbalance", 60.0, 60.0)], 0.0, 100.0)
    assert saved(found) == {"idle": 70.0, "imbalance": 30.0}
    assert "only 30.00 µs is left of the step with the rows above" in found[1].why


def test_time_alone_is_what_no_other_interval_covers() -> None:
    start, end = np.array([0, 10, 12, 40, 40]), np.array([20, 15, 30, 50, 40])
    assert alone(start, end).tolist() == [10, 0, 10, 10, 0]
    assert alone(start[:0], end[:0]).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_time_alone_agrees_with_counting(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = random.integers(0, 60, 12)
    end = start + random.integers(0, 20, 12)
    beside = [union(np.delete(start, at), np.delete(end, at)) for at in range(start.size)]
    counted = [
        sum(
            1
            for moment in range(first, last)
            if not ((others.start <= moment) & (moment < others.end)).any()
        )
        for first, last, others in zip(start.tolist(), end.tolist(), beside, strict=True)
    ]
    assert alone(start, end).tolist() == counted


def test_work_beside_other_work_saves_nothing() -> None:
    """A slow product that an equally long one covers: the step stays as long without it."""
    shape = {
        "input_dims": "[[8,4096],[4096,4096]]",
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
    }
    events: list[dict[str, Any]] = []
    for number in range(3):
        at = 1000 * US * number
        events.append(event("annotation", "decode_step", at, 900 * US))
        for stream in (0, 1):
            link, call = 2 * number + stream + 1, at + 10 * US * stream
            events += [
                event("cpu_op", "aten::mm", call, 5 * US, external_id=link, **shape),
                event("runtime", "cudaLaunchKernel", call + US, US, correlation=link),
                event(
                    *("kernel", "nvjet_tst_128x8", at + 50 * US, 700 * US),
                    correlation=link, stream=stream,
                ),
            ]  # fmt: skip
    card = hardware_of(attributed_recording(recording("traces/h100_qwen1.5-0.5b.json.gz")))
    found = hotspots(attributed(*events), card)
    assert not [row for row in found.hotspots if row.kind == "operator"]
    assert sum(row.recoverable_us for row in found.hotspots) == pytest.approx(300.0)


@pytest.mark.parametrize("name", some(REAL, 2))
def test_rows_of_a_recording_leave_the_speed_of_light(name: str) -> None:
    profile: Attributed = attributed_recording(recording(name))
    known = {}
    if hardware_of(profile) is not None:
        known = {row.name: row.overlap_sol_ms for row in efficiency(profile).rows}
    for table in hotspots_by_phase(profile):
        total_ms = sum(row.recoverable_us for row in table.hotspots) / 1e3
        least_ms = known.get(table.phase or "unknown phase") or 0.0
        assert total_ms <= table.step_ms - least_ms + 1e-6
