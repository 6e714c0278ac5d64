"""Stands in for the device timer where there is no GPU: same words, the clock of the process."""

from __future__ import annotations

import time
from typing import Any


class DeviceTimer:
    l2_bytes = 1 << 20

    def __init__(self, torch: Any) -> None:
        self.calls: Any = None

    def sync(self) -> None:
        pass

    def rehearse(self) -> None:
        pass

    def free(self) -> None:
        self.calls = None

    def time(
        self, call: Any, put_back: Any, order: Any, kineto: bool, spin_us: float
    ) -> tuple[dict[str, Any], list[Any]]:
        kept, times = [], []
        for index, _ in order:
            put_back(index)
            start = time.perf_counter()
            kept.append(call(index))
            times.append(1e6 * (time.perf_counter() - start))
        reply: dict[str, Any] = {"events_us": times, "host_us": times, "lag_us": [1.0] * len(order)}
        if kineto:
            reply |= {"span_us": times, "busy_us": times, "activities": [1] * len(order)}
        return reply, kept

    def capture(self, calls: Any) -> Any:
        self.calls = calls
        return calls()

    def replay(self, times: int) -> None:
        for _ in range(times):
            self.calls()
