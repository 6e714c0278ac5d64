"""One recording of the loop: steps timed without the profiler, then a profile and its samples."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from solscope.capture.background import BackgroundSampler
from solscope.capture.garbage import mark_collections
from solscope.capture.sampler import HEADER
from solscope.lab.loop import Loop

PERIOD_MS = 10
"""Milliseconds from one sample of the sensors to the next."""


class Timing(NamedTuple):
    """Step times without a profiler."""

    mean_ms: float
    median_ms: float
    steps: int


def time_steps(loop: Loop, count: int, least_s: float = 0.0) -> Timing:
    """Run at least `count` steps, and for at least `least_s`; whole rounds of prefill."""
    times: list[float] = []
    loop.finish()
    start = time.perf_counter()
    while len(times) < count or time.perf_counter() - start < least_s:
        for _ in range(loop.defaults.prefill_every):
            before = time.perf_counter()
            loop.step()
            times.append(1e3 * (time.perf_counter() - before))
    loop.finish()
    total_ms = 1e3 * (time.perf_counter() - start)
    return Timing(total_ms / len(times), statistics.median(times), len(times))


def profile_steps(loop: Loop, count: int, path: Path, pause: Callable[[], None]) -> tuple[int, int]:
    """Write the profile of `count` steps to `path`; `pause` is called before it is written.

    Returns the Unix times in ns between which the steps ran.
    """
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if loop.on_gpu:
        activities.append(ProfilerActivity.CUDA)
    profiler = profile(activities=activities, record_shapes=True)
    with mark_collections():
        loop.finish()
        profiler.start()
        begin = time.time_ns()
        for _ in range(count):
            loop.step()
        loop.finish()
        end = time.time_ns()
    pause()
    profiler.stop()
    profiler.export_chrome_trace(str(path))
    return begin, end


class Samples:
    """Samples of the whole session, taken by another process, and cut into recordings."""

    def __init__(self, pid: int, path: Path, cores: set[int]) -> None:
        self._path = path
        self.sampler = BackgroundSampler(pid, path, PERIOD_MS, cores)
        self._offset = 0
        self._kept: list[tuple[int, bytes]] = []

    def save(self, begin_ns: int, end_ns: int, path: Path) -> int:
        """Write the samples of an interval to `path`; returns how many there are."""
        time.sleep(3 * PERIOD_MS / 1e3)
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        lines = [line for line in data[:whole].split(b"\n") if line and line + b"\n" != HEADER]
        self._kept += [(int(line[: line.index(b",")]), line) for line in lines]
        self._kept = [(time_ns, line) for time_ns, line in self._kept if time_ns >= begin_ns]
        inside = [line for time_ns, line in self._kept if time_ns <= end_ns]
        path.write_bytes(HEADER + b"".join(line + b"\n" for line in inside))
        return len(inside)
