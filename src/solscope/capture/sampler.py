"""The sampler: a few threads that read sensors at a period and append whole lines to one file.

Cheap sensors are read at every tick, dear ones at `SLOW_NS`; each GPU has a thread of its own, and
so has its PCIe link, whose readings block. The file is a metrics file at every moment: lines are
written whole, in one call, and carry their own time. Run as a program, it samples until its
standard input is closed, or the process it watches ends:

    python -m solscope.capture.sampler --pid 4711 --period-ms 10 -o run.metrics.csv
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solscope.capture.base import HOST, MissingSensorError, Sensor, Write
from solscope.capture.cgroups import Throttling
from solscope.capture.host import HOST_SENSORS, Spin
from solscope.capture.nvml import GpuLink, GpuState, Nvml
from solscope.capture.process import PROCESS_SENSORS

HEADER = b"t_ns,metric,device,value\n"
SLOW_NS = 50_000_000
"""Least time between two readings of a dear sensor."""
GPU_NS = 20_000_000
"""Least time between two readings of a GPU; its utilization changes less often than that."""


@dataclass(frozen=True)
class Missing:
    """A sensor that this machine, or this process, does not have."""

    name: str
    metrics: tuple[str, ...]
    reason: str


@dataclass
class Sensors:
    """What can be read here, and what cannot."""

    fast: list[Sensor] = field(default_factory=list)
    slow: list[Sensor] = field(default_factory=list)
    gpu: list[Sensor] = field(default_factory=list)
    link: list[Sensor] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @property
    def present(self) -> list[Sensor]:
        return [*self.fast, *self.slow, *self.gpu, *self.link]


class OwnCost:
    """What the sampler itself spends, so that the file tells its price."""

    name = "CPU time of the sampler"
    metrics = ("capture_cpu_ns",)
    slow = True

    def sample(self, write: Write) -> None:
        write(time.time_ns(), "capture_cpu_ns", HOST, time.process_time_ns())


def find_sensors(pid: int | None, spin: bool = False) -> Sensors:
    """Open every sensor there is for process `pid` and this machine."""
    found = Sensors()
    process = [*PROCESS_SENSORS, Throttling] if pid is not None else []
    for kind in process:
        _add(found, kind, pid)
    for host_kind in (*HOST_SENSORS, *((Spin,) if spin else ())):
        _add(found, host_kind)
    found.slow.append(OwnCost())
    try:
        nvml = Nvml()
    except MissingSensorError as error:
        metrics = (*GpuState.metrics, *GpuLink.metrics)
        found.missing.append(Missing(GpuState.name, metrics, str(error)))
        return found
    for index, handle in enumerate(nvml.devices()):
        found.gpu.append(GpuState(nvml, index, handle, pid))
        found.link.append(GpuLink(nvml, index, handle))
    return found


def _add(found: Sensors, kind: Any, *arguments: int | None) -> None:
    try:
        sensor = kind(*arguments)
    except MissingSensorError as error:
        found.missing.append(Missing(kind.name, kind.metrics, str(error)))
        return
    (found.slow if sensor.slow else found.fast).append(sensor)


class Sampler:
    """Reads sensors on threads of this process and appends to `path` until stopped."""

    def __init__(self, path: Path, sensors: Sensors, period_ns: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.write(self._descriptor, HEADER)
        self._sensors, self._period_ns = sensors, period_ns
        self._stop = threading.Event()
        self._gone = threading.Event()
        slow_ns, gpu_ns = max(period_ns, SLOW_NS), max(period_ns, GPU_NS)
        plans = [(sensors.fast, period_ns), (sensors.slow, slow_ns)]
        plans += [([sensor], gpu_ns) for sensor in sensors.gpu]
        plans += [([sensor], slow_ns) for sensor in sensors.link]
        self._threads = [
            threading.Thread(target=self._loop, args=plan, daemon=True) for plan in plans if plan[0]
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads and close the file."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=5)
        os.close(self._descriptor)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the process watched has ended; false when the time is over first."""
        return self._gone.wait(timeout_s)

    def _loop(self, sensors: list[Sensor], period_ns: int) -> None:
        lines: list[str] = []
        due = time.monotonic_ns()

        def write(time_ns: int, metric: str, device: str, value: float) -> None:
            lines.append(f"{time_ns},{metric},{device},{value}\n")

        while not self._stop.is_set():
            try:
                for sensor in sensors:
                    sensor.sample(write)
            except (OSError, ValueError):
                # The process watched has ended: its files can be opened no more, or are empty.
                self._gone.set()
                return
            os.write(self._descriptor, "".join(lines).encode())
            lines.clear()
            # Ticks that were missed are left out: catching up would sample in bursts.
            now = time.monotonic_ns()
            due = max(due + period_ns, now)
            self._stop.wait((due - now) / 1e9)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample until standard input is closed, a signal comes or the process ends."""
    parser = argparse.ArgumentParser(prog="python -m solscope.capture.sampler")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--period-ms", type=float, default=100.0)
    parser.add_argument("--spin", action="store_true")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args(arguments)
    sensors = find_sensors(options.pid, options.spin)
    sampler = Sampler(options.output, sensors, round(options.period_ms * 1e6))
    closed = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: closed.set())
    sampler.start()
    for missing in sensors.missing:
        sys.stdout.write(f"missing: {missing.name}: {missing.reason}\n")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Thread(target=_until_closed, args=(closed,), daemon=True).start()
    while not closed.wait(0.1) and not sampler.wait(0):
        pass
    sampler.stop()
    return 0


def _until_closed(closed: threading.Event) -> None:
    while sys.stdin.buffer.read(1):
        pass
    closed.set()


if __name__ == "__main__":
    sys.exit(main())
