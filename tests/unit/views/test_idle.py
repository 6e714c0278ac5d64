from __future__ import annotations

import gc
import weakref
from typing import Any

from solscope.views.device_time import device_times
from solscope.views.summary import summarize
from tests.making import attributed, event


def causes(*events: dict[str, Any]) -> dict[str, float]:
    """Idle nanoseconds by cause."""
    return {c.cause: round(c.time_ms * 1e6) for c in summarize(attributed(*events)).idle}


FIRST = event("kernel", "gemm", 0, 100)


def test_a_late_launch_is_the_hosts_fault_up_to_the_call_and_latency_from_then_on() -> None:
    launch = event("runtime", "cudaLaunchKernel", 150, 20, correlation=1)
    late = event("kernel", "gemm", 200, 10, correlation=1)
    assert causes(FIRST, launch, late) == {"host": 50, "launch": 50}


def test_a_launch_before_the_gap_is_latency_only() -> None:
    launch = event("runtime", "cudaLaunchKernel", 20, 5, correlation=1)
    assert causes(FIRST, launch, event("kernel", "gemm", 130, 10, correlation=1)) == {"launch": 30}


def test_time_in_a_synchronizing_call_of_the_launching_thread_is_sync() -> None:
    sync = event("runtime", "cudaStreamSynchronize", 50, 70)
    launch = event("runtime", "cudaLaunchKernel", 150, 10, correlation=1)
    late = event("kernel", "gemm", 170, 10, correlation=1)
    assert causes(FIRST, sync, launch, late) == {"sync": 20, "host": 30, "launch": 20}


def test_a_synchronizing_call_of_another_thread_does_not_matter() -> None:
    sync = event("runtime", "cudaStreamSynchronize", 50, 70, tid=2)
    launch = event("runtime", "cudaLaunchKernel", 150, 10, correlation=1)
    late = event("kernel", "gemm", 150, 10, correlation=1)
    assert causes(FIRST, sync, launch, late) == {"host": 50}


def test_allocation_is_told_apart() -> None:
    alloc = event("runtime", "hipMalloc", 110, 30)
    launch = event("runtime", "hipLaunchKernel", 150, 10, correlation=1)
    late = event("kernel", "gemm", 150, 10, correlation=1)
    assert causes(FIRST, alloc, launch, late) == {"host": 20, "alloc": 30}


def test_a_gap_before_an_unlinked_activity_has_no_known_cause() -> None:
    assert causes(FIRST, event("kernel", "gemm", 150, 10)) == {"unlinked": 50}


def test_causes_sum_to_the_idle_time() -> None:
    launches = [
        event("runtime", "cudaLaunchKernel", 90 * i, 10, correlation=i) for i in range(1, 9)
    ]
    kernels = [event("kernel", "gemm", 100 * i, 37, correlation=i) for i in range(1, 9)]
    result = summarize(attributed(*launches, *kernels))
    assert result.gpu_span_ms is not None
    assert result.gpu_busy_ms is not None
    idle_ns = round((result.gpu_span_ms - result.gpu_busy_ms) * 1e6)
    assert sum(round(c.time_ms * 1e6) for c in result.idle) == idle_ns == 7 * 63


def test_devices_are_computed_once_while_a_profile_is_looked_at() -> None:
    one, other = attributed(FIRST), attributed(FIRST)
    (first,), (again,) = device_times(one), device_times(one)
    assert first is again
    (fresh,) = device_times(other)
    assert fresh is not first
    held = weakref.ref(other)
    del other
    gc.collect()
    assert held() is None
