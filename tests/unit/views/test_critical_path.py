from __future__ import annotations

from typing import Any

import pytest

from solscope.attribution.opening import open_attributed
from solscope.views.host import HostTable, host_table
from tests.making import attributed, event
from tests.recordings import recording

US = 1000


def launched(number: int, at: int, start: int, dur: int, stream: int = 7) -> list[dict[str, Any]]:
    """A launch call of 1 µs and its kernel, in µs."""
    return [
        event("runtime", "cudaLaunchKernel", at * US, US, correlation=number),
        event("kernel", "k", start * US, dur * US, correlation=number, stream=stream),
    ]


def path_ns(found: HostTable) -> int:
    parts = (found.path_gpu_ms, found.path_host_ms, found.path_launch_ms, found.path_sync_ms)
    return sum(round(1e6 * part) for part in parts)


def closes(found: HostTable) -> None:
    assert path_ns(found) == round(1e6 * found.span_ms)
    on_path = sum(round(1e6 * part.on_path_ms) for part in found.path)
    assert on_path == round(1e6 * found.path_gpu_ms)


@pytest.mark.parametrize(
    "name",
    [
        "traces/a100_hta_tracediff_control.json.gz",
        "h200/graph/normal.trace.json.gz",
        "h200/graph/no_cuda_graph.trace.json.gz",
    ],
)
def test_the_path_of_recordings_is_as_long_as_the_span(name: str) -> None:
    found = host_table(open_attributed(str(recording(name))))
    closes(found)
    assert found.faster_ms is not None
    assert found.faster_ms <= found.waiting_ms


def test_two_full_streams_count_once() -> None:
    events = []
    for n in range(20):
        events += launched(2 * n + 1, 2 * n, 10 + 100 * n, 100)
        events += launched(2 * n + 2, 2 * n + 1, 60 + 100 * n, 100, stream=8)
    found = host_table(attributed(*events))
    closes(found)
    assert found.path_gpu_ms == pytest.approx(2.05)


def test_an_activity_counts_up_to_the_next_on_the_path() -> None:
    # A long kernel covers a short one; the last is launched while the long one runs.
    found = host_table(
        attributed(
            *launched(1, 0, 10, 100),
            *launched(2, 2, 20, 10, stream=8),
            *launched(3, 90, 120, 5, stream=8),
        )
    )
    closes(found)
    assert found.path_gpu_ms == pytest.approx(0.105)
    assert found.path_launch_ms == pytest.approx(0.010)
    assert found.path_host_ms == 0


def test_a_call_that_waits_for_nothing_does_not_leave_the_host() -> None:
    found = host_table(
        attributed(
            *launched(1, 0, 10, 10),
            event("runtime", "cudaStreamSynchronize", 50 * US, 2 * US),
            *launched(2, 80, 90, 10),
        )
    )
    closes(found)
    assert found.path_host_ms == pytest.approx(0.070)
    assert found.path_sync_ms == 0


def test_a_copy_to_pageable_memory_waits_for_the_gpu() -> None:
    found = host_table(
        attributed(
            *launched(1, 0, 10, 50),
            event("runtime", "cudaMemcpyAsync", 5 * US, 60 * US, correlation=2),
            event("memcpy", "Memcpy DtoH", 60 * US, 3 * US, correlation=2),
            *launched(3, 80, 90, 10),
        )
    )
    closes(found)
    # The call returns 2 µs after its copy; the host launches 15 µs later.
    assert found.path_sync_ms == pytest.approx(0.002)
    assert found.path_host_ms == pytest.approx(0.015)
    assert found.path_gpu_ms == pytest.approx(0.063)


def test_idle_time_follows_the_activity_that_ends_last() -> None:
    found = host_table(
        attributed(
            *launched(1, 0, 10, 100),
            event("runtime", "cudaMemcpyAsync", 2 * US, US, correlation=2),
            event("memcpy", "Memcpy DtoD", 20 * US, 10 * US, correlation=2, stream=8),
            *launched(3, 120, 130, 5),
        )
    )
    idle = {part.category: part.idle_after_ms for part in found.path}
    assert idle["memcpy"] == 0
    assert sum(idle.values()) == pytest.approx(0.020)


def test_faster_launches_save_no_more_than_the_waiting() -> None:
    # Launch calls of 90 µs run beside kernels; the GPU waits only 5 µs before each.
    events = []
    for n in range(4):
        events += [
            event("runtime", "cudaLaunchKernel", 100 * n * US, 90 * US, correlation=n + 1),
            event("kernel", "k", (100 * n + 20) * US, 75 * US, correlation=n + 1),
        ]
    found = host_table(attributed(*events), 3.0)
    closes(found)
    assert found.faster_ms == pytest.approx(found.waiting_ms)
