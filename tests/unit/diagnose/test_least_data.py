"""Limits below which a check says nothing, or counts nothing, each at its edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import match
from solscope.diagnose.thresholds import Thresholds
from solscope.diagnose.verdict.judging import _direction
from solscope.readers.packed import KernelClass, Observations
from tests.unit.diagnose.making import EAGER, GRAPH, Made
from tests.unit.diagnose.test_causes import slower_host, slower_section

TESTED = {
    "kernel_categories", "row_kernels", "other_threads_cores", "min_steps", "matched_share",
    "dtype_calls", "kernel_interrupted",
}  # fmt: skip
"""Limits that have their edge here; `test_thresholds.py` has the others."""


def findings(normal: Observations, abnormal: Observations) -> Findings:
    result = find(match(normal, abnormal))
    assert result is not None
    return result


def with_kernels(made: Made, count: int) -> Observations:
    return replace(made, kernels=dict(list(made.kernels.items())[:count])).run()


def changed(run: Observations, change: Callable[[KernelClass], KernelClass]) -> Observations:
    return msgspec.structs.replace(run, kernels=[change(kernel) for kernel in run.kernels])


@pytest.mark.parametrize(("categories", "known"), [(2, False), (3, True)])
def test_all_kernels_are_at_least_three_categories(categories: int, known: bool) -> None:
    run = with_kernels(EAGER, categories)
    assert (gpu.all_kernels_slower(findings(run, run)).holds is not None) is known


@pytest.mark.parametrize(("kernels", "known"), [(1, False), (2, True)])
def test_grids_of_two_row_wise_kernels_tell_the_batch(kernels: int, known: bool) -> None:
    categories = [key for key in GRAPH.kernels if key[0] in work.ROWWISE][:kernels]
    run = replace(GRAPH, kernels={key: GRAPH.kernels[key] for key in categories}).run()
    assert (work.batch_differs(findings(run, run)).holds is not None) is known


@pytest.mark.parametrize(("cores", "known"), [(0.18, False), (0.22, True)])
def test_other_threads_must_be_at_work_to_show_that_all_stopped(cores: float, known: bool) -> None:
    busy = EAGER.but(counters={"process_cpu_ns": 0.98e9 + cores * 1e9})
    slow = slower_host(busy, 2.0, oncpu_ns=0.5e9)
    assert (host.process_stopped(findings(busy.run(), slow.run(3))).holds is not None) is known


@pytest.mark.parametrize(("whole", "known"), [(3, False), (4, True)])
def test_nothing_is_tested_with_fewer_than_four_steps(whole: int, known: bool) -> None:
    made = EAGER.but(steps=whole + 2)  # The first and the last step of a recording do not count.
    slow = slower_section(made, "schedule", 20.0)
    result = diagnose_runs(made.run(), slow.run(3))
    assert (result.verdict != "cannot_compare") is known
    assert (host.regular(findings(made.run(), slow.run(3))).holds is not None) is known


@pytest.mark.parametrize(("shared", "differs"), [(9, True), (10, False)])
def test_half_of_the_steps_must_have_common_batch_sizes(shared: int, differs: bool) -> None:
    made = EAGER.but(steps=22)  # Twenty count: all but the first and the last.
    run = made.run(3)
    steps = [
        step if step.number <= shared else msgspec.structs.replace(step, requests=64)
        for step in run.steps
    ]
    other = msgspec.structs.replace(run, steps=steps)
    assert work.batch_differs(findings(made.run(), other)).holds is differs


@pytest.mark.parametrize(("steps", "differs"), [(18, False), (20, True)])
def test_one_product_per_step_must_change_its_type(steps: int, differs: bool) -> None:
    """One of ten products is in fp32: in all of twenty steps, or in eighteen of them."""
    key = ("gemm", "nvjet_128", "bf16")
    made = EAGER.but(steps=21, kernels={key: (10, 27.0, "132,1,1")})
    run = made.but(kernels={("gemm", "sgemm_128", "f32"): (1, 27.0, "132,1,1")}).run(3)
    count = len(run.steps)
    moved = [int(step < steps or step == count - 1) for step in range(count)]

    def change(kernel: KernelClass) -> KernelClass:
        if kernel.dtype == "f32":
            return msgspec.structs.replace(kernel, calls=moved)
        if kernel.category == "gemm":
            return msgspec.structs.replace(kernel, calls=[10 - one for one in moved])
        return kernel

    assert work.dtype_differs(findings(made.run(), changed(run, change))).holds is differs


@pytest.mark.parametrize(("mean", "interrupted"), [(1.075, False), (1.085, True)])
def test_interrupted_calls_move_the_mean_by_more_than_the_median(
    mean: float, interrupted: bool
) -> None:
    def change(kernel: KernelClass) -> KernelClass:
        return msgspec.structs.replace(
            kernel, ns=[round(ns * mean) for ns in kernel.ns], p50_ns=round(kernel.p50_ns * 1.03)
        )

    run = EAGER.run()
    assert gpu.interrupted(findings(run, changed(run, change))).holds is interrupted


@pytest.mark.parametrize(("high", "direction"), [(0.995, 0), (1.005, 1)])
def test_a_slower_typical_step_is_no_regression_of_a_run_that_is_faster(
    high: float, direction: int
) -> None:
    """Each step takes 8 % longer, but the long steps of the normal run are gone."""
    wall = np.arange(100.0, 110.0)
    stratum = SimpleNamespace(normal=np.arange(10), abnormal=np.arange(10), tested=True)
    sides = {"normal": SimpleNamespace(wall=wall), "abnormal": SimpleNamespace(wall=wall + 20)}
    f: Any = SimpleNamespace(
        outcome=SimpleNamespace(low=0.975, high=high, floor=0.03, typical=1.08),
        units=SimpleNamespace(strata=[stratum], factor=1.0, **sides),
        limits=Thresholds(),
    )
    assert _direction(f) == direction
