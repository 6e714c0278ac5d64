"""Spans of calls from the activities of a profiler."""

from __future__ import annotations

from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.worker.device_timer import spans  # noqa: E402


class Event(NamedTuple):
    what: str
    start: int
    length: int
    device: str = "DeviceType.CUDA"

    def name(self) -> str:
        return self.what

    def device_type(self) -> str:
        return self.device

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.length


def test_a_call_is_what_lies_between_its_spins_on_any_stream() -> None:
    events = [
        Event("cudaLaunchKernel", 0, 5, "DeviceType.CPU"),
        Event("reduce", 0, 90),
        Event("void spin_kernel(long)", 100, 50),
        Event("side", 140, 30),
        Event("main", 160, 40),
        Event("void spin_kernel(long)", 300, 5),
        Event("reduce", 400, 90),
        Event("void spin_kernel(long)", 500, 50),
        Event("main", 560, 20),
        Event("void spin_kernel(long)", 600, 5),
    ]
    assert spans(events, 2) == {
        "span_us": [0.06, 0.02],
        "busy_us": [0.07, 0.02],
        "activities": [2, 1],
    }
    assert "for 3 calls" in spans(events, 3)["span_reason"]
    assert "without any device activity" in spans([events[2], events[5]], 1)["span_reason"]
