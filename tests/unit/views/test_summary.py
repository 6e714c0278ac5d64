from __future__ import annotations

import pytest

from solscope.views.summary import summarize
from tests.making import aggregate, attributed, event

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def test_overlapping_activities_count_once_in_busy_and_twice_in_kernel_time() -> None:
    result = summarize(
        attributed(
            event("kernel", GEMM, 0, 100),
            event("kernel", GEMM, 50, 100, stream=8),
            event("kernel", GEMM, 250, 50),
        )
    )
    assert (result.gpu_span_ms, result.gpu_busy_ms) == (300e-6, 200e-6)
    assert result.gpu_busy_pct == pytest.approx(200 / 3)
    assert result.kernel_time_ms == 250e-6


def test_exposed_communication_is_what_compute_does_not_cover() -> None:
    result = summarize(
        attributed(event("kernel", GEMM, 0, 100), event("kernel", NCCL, 60, 100, stream=9))
    )
    assert result.comm_ms == 100e-6
    assert result.exposed_comm_ms == 60e-6
    assert result.exposed_comm_pct == pytest.approx(100 * 60 / 160)


def test_exposed_memcpy_is_hidden_by_communication_too() -> None:
    result = summarize(
        attributed(
            event("kernel", NCCL, 0, 100),
            event("memcpy", "Memcpy HtoD (Pinned -> Device)", 50, 100, stream=9),
        )
    )
    assert result.memcpy_ms == 100e-6
    assert result.exposed_memcpy_ms == 50e-6


def test_memset_counts_as_compute() -> None:
    result = summarize(
        attributed(event("memset", "Memset (Device)", 0, 100), event("kernel", NCCL, 0, 100))
    )
    assert result.exposed_comm_ms == 0.0


def test_categories_sum_to_the_total_exactly() -> None:
    result = summarize(
        attributed(
            event("kernel", GEMM, 0, 333),
            event("kernel", "never_seen_before", 400, 333),
            event("memset", "Memset (Device)", 800, 334),
        )
    )
    assert {c.category: (c.calls, c.time_ms) for c in result.categories} == {
        "gemm": (1, 333e-6),
        "other": (1, 333e-6),
        "memset": (1, 334e-6),
    }
    assert sum(c.pct for c in result.categories) == pytest.approx(100)
    assert result.coverage.classified_pct == pytest.approx(66.7)


def test_several_devices_have_an_entry_each_and_sum_up() -> None:
    result = summarize(
        attributed(
            event("kernel", GEMM, 0, 100),
            event("kernel", GEMM, 1000, 50, device=1),
            event("kernel", GEMM, 1100, 50, device=1),
        )
    )
    assert [(d.device, d.gpu_span_ms, d.gpu_busy_ms) for d in result.per_device] == [
        (0, 100e-6, 100e-6),
        (1, 150e-6, 100e-6),
    ]
    assert result.gpu_busy_pct == pytest.approx(100 * 200 / 250)
    assert result.devices == ["GPU-0", "GPU-1"]


def test_a_kernel_without_duration_counts_but_takes_no_time() -> None:
    result = summarize(attributed(event("kernel", GEMM, 0, 100), event("kernel", GEMM, 500, None)))
    assert (result.kernels, result.kernel_time_ms, result.gpu_span_ms) == (2, 100e-6, 500e-6)


def test_a_profile_without_gpu_activity_has_nulls_and_says_so() -> None:
    result = summarize(attributed(event("cpu_op", "aten::mm", 0, 100)))
    assert result.gpu_span_ms is None
    assert result.gpu_busy_pct is None
    assert [w.code for w in result.warnings] == ["no_gpu_activity"]


def test_an_aggregate_has_sums_but_no_time_line() -> None:
    row = {"kind": "kernel", "name": GEMM, "calls": 10, "total_ns": 5_000, "mean_ns": 500.0}
    other = {"kind": "kernel", "name": NCCL, "calls": 2, "total_ns": 5_000, "mean_ns": 2500.0}
    result = summarize(aggregate(row, other))
    assert (result.kernels, result.kernel_time_ms, result.comm_ms) == (12, 0.01, 0.005)
    assert result.gpu_span_ms is None
    assert result.exposed_comm_ms is None
    assert result.coverage.linked_pct is None


def test_unlinked_kernels_are_counted_and_named() -> None:
    launch = event("runtime", "cudaLaunchKernel", 0, 5, correlation=1)
    result = summarize(
        attributed(
            launch, event("kernel", GEMM, 10, 30, correlation=1), event("kernel", GEMM, 50, 10)
        )
    )
    assert result.coverage.linked_pct == 75.0
    assert result.warnings[0].code == "unlinked"
    assert result.warnings[0].message.startswith("1 of 2 GPU activities (25.0 % of GPU time)")


def test_one_stray_early_kernel_is_reported() -> None:
    busy = [event("kernel", GEMM, 1_000_000 + 10 * i, 10) for i in range(40)]
    result = summarize(attributed(event("kernel", GEMM, 0, 10), *busy))
    assert "stray_activity" in {w.code for w in result.warnings}
