from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import solscope
from solscope import attribute
from solscope.events import METRIC_SCHEMA
from solscope.views.core_wait import core_wait_pct, lacks_core_pct
from solscope.views.hotspots import advice, hotspots
from solscope.views.summary import summarize
from tests.making import event, profile

MS = 1_000_000
STEP = 10 * MS


def waiting(**shares: float) -> solscope.Attributed:
    """Steps of 10 ms with 1 ms of work after a gap of 9; counters grow by a share of the time."""
    events = []
    for at in range(8):
        start = at * STEP
        events.append(event("annotation", f"ProfilerStep#{at}", start, STEP - 10))
        launch = start + 9 * MS - 5_000
        events.append(event("runtime", "cudaLaunchKernel", launch, 3_000, correlation=at + 1))
        events.append(event("kernel", "gemm", start + 9 * MS, MS, correlation=at + 1))
    made = profile(*events, unix_offset_ns=1_000)
    rows = [
        {"t_ns": 1_000 + t, "metric": name, "device": None, "value": float(share * t)}
        for t in range(0, 9 * STEP, MS)
        for name, share in shares.items()
    ]
    metrics = pl.DataFrame(rows, schema=METRIC_SCHEMA) if rows else None
    return attribute(replace(made, metrics=metrics))


def test_a_host_without_a_core_is_what_the_gpu_waits_for() -> None:
    run = waiting(runq_ns=0.7, oncpu_ns=0.3)
    assert core_wait_pct(run) == pytest.approx(70)
    assert "has no core for 70 % of the recording" in summarize(run).verdict.sentence
    row = next(row for row in hotspots(run).hotspots if row.operator == "host")
    assert row.advice == advice.NO_CORE
    assert "no core for 70 % of the recording" in row.why


@pytest.mark.parametrize("shares", [{}, {"runq_ns": 0.02, "oncpu_ns": 0.9}])
def test_a_host_that_has_its_core_is_not_said_to_lack_one(shares: dict[str, float]) -> None:
    run = waiting(**shares)
    assert "core" not in summarize(run).verdict.sentence
    assert advice.NO_CORE not in [row.advice for row in hotspots(run).hotspots]


def test_a_missing_core_is_the_reason_only_for_most_of_the_waiting() -> None:
    assert lacks_core_pct(waiting(runq_ns=0.59, oncpu_ns=0.3), 10.0, 10.0) is None
    assert lacks_core_pct(waiting(runq_ns=0.61, oncpu_ns=0.3), 10.0, 10.0) == pytest.approx(61)
    # The GPU waits for 90 % of a step.
    below, above = waiting(runq_ns=0.53, oncpu_ns=0.3), waiting(runq_ns=0.55, oncpu_ns=0.3)
    assert "core" not in summarize(below).verdict.sentence
    assert advice.NO_CORE not in [row.advice for row in hotspots(below).hotspots]
    assert "has no core for 55 % of the recording" in summarize(above).verdict.sentence
    assert advice.NO_CORE in [row.advice for row in hotspots(above).hotspots]


def test_sums_over_threads_say_nothing_about_one() -> None:
    assert core_wait_pct(waiting(runq_ns=0.7, oncpu_ns=2.0)) is None
    assert core_wait_pct(waiting(runq_ns=0.7, oncpu_ns=0.41)) is None
    assert core_wait_pct(waiting(runq_ns=0.7, oncpu_ns=0.39)) == pytest.approx(70)
