"""The sampler: a few threads that read sensors at a period and append whole lines to one file.

Sensors of the host are read on one thread: cheap ones at every tick, dear ones at every second, or
less often, so that `SLOW_NS` lies between. Each GPU has a thread of its own, and so has its PCIe
link, whose readings block. The file is a metrics file at every moment: lines are
written whole, in one call, and carry their own time. Run as a program, it samples until its
standard input is closed, a signal comes, or the process it watches ends:

    python -m solscope.capture.sampler --pid 4711 --period-ms 10 -o run.metrics.csv
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from solscope.capture.base import Sensor
from solscope.capture.sensors import Sensors, find_sensors

HEADER = b"t_ns,metric,device,value\n"
MIN_PERIOD_MS, MAX_PERIOD_MS = 10.0, 60_000.0
SLOW_NS = 50_000_000
"""Least time between two readings of a dear sensor."""
CHECK_S = 0.5
"""How often it is looked whether the process watched still runs."""
THE_FILE = "the file"
"""Listed among the lost sensors if samples could not be written any more."""
GPU_NS = 20_000_000
"""Least time between two readings of a GPU; its utilization changes less often than that."""


class Sampler:
    """Reads sensors on threads of this process and appends to `path` until stopped."""

    def __init__(self, path: Path, sensors: Sensors, period_ms: float) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.write(self._descriptor, HEADER)
        self._pid = sensors.pid
        self._stop = threading.Event()
        self._gone = threading.Event()
        self._writing = threading.Lock()
        self.lost: dict[str, str] = {}
        """Sensors that failed during the recording, and how; `THE_FILE` for a full disk."""
        self.samples = 0
        period_ns = round(period_ms * 1e6)
        ticks = max(2, math.ceil(SLOW_NS / period_ns))
        host = [*((sensor, 1) for sensor in sensors.fast), *((s, ticks) for s in sensors.slow)]
        plans = [(host, period_ns)]
        plans += [([(sensor, 1)], max(period_ns, GPU_NS)) for sensor in sensors.gpu]
        plans += [([(sensor, 1)], max(period_ns, SLOW_NS)) for sensor in sensors.link]
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
            thread.join()
        os.close(self._descriptor)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process watched has ended, or the file cannot be written any further.

        False when the time is over first.
        """
        return self._gone.wait(timeout_s) or self._ended()

    def _loop(self, sensors: list[tuple[Sensor, int]], period_ns: int) -> None:
        """Read each sensor whenever its number of ticks has passed."""
        lines: list[str] = []
        tick = 0

        def write(time_ns: int, metric: str, device: str, value: float) -> None:
            lines.append(f"{time_ns},{metric},{device},{value}\n")

        due = time.monotonic_ns()
        while not self._stop.is_set() and not self._gone.is_set():
            for entry in tuple(sensors):
                sensor, ticks = entry
                if tick % ticks:
                    continue
                try:
                    sensor.sample(write)
                except (OSError, ValueError) as error:
                    if self._ended():
                        self._gone.set()
                        break
                    sensors.remove(entry)
                    self.lost[sensor.name] = str(error)
            tick += 1
            if not self._append(lines):
                return
            lines.clear()
            # Ticks that were missed are left out: catching up would sample in bursts.
            now = time.monotonic_ns()
            due = max(due + period_ns, now)
            self._stop.wait((due - now) / 1e9)

    def _append(self, lines: list[str]) -> bool:
        """Write complete lines; false if the disk is full, which ends sampling."""
        data = "".join(lines).encode()
        with self._writing:
            if THE_FILE in self.lost:
                return False
            end = os.fstat(self._descriptor).st_size
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                os.ftruncate(self._descriptor, end)
                self.lost[THE_FILE] = error.strerror or str(error)
                self._gone.set()
                return False
            self.samples += len(lines)
            return True

    def _ended(self) -> bool:
        """True when the process watched is gone, or is a zombie."""
        if self._pid is None:
            return False
        try:
            text = Path(f"/proc/{self._pid}/stat").read_bytes()
        except OSError:
            return True
        return text[text.rindex(b")") + 2 :][:1] in b"ZX"


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample until standard input is closed, a signal comes or the process ends."""
    parser = argparse.ArgumentParser(prog="python -m solscope.capture.sampler")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--period-ms", type=float, default=100.0)
    parser.add_argument("--spin", action="store_true")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args(arguments)
    sensors = find_sensors(options.pid, options.spin)
    sampler = Sampler(options.output, sensors, options.period_ms)
    closed = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: closed.set())
    sampler.start()
    for missing in sensors.missing:
        sys.stdout.write(f"missing: {missing.name}: {missing.reason}\n")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Thread(target=_until_closed, args=(closed,), daemon=True).start()
    while not closed.wait(CHECK_S) and not sampler.wait(0):
        pass
    sampler.stop()
    if THE_FILE in sampler.lost:
        sys.stderr.write(f"solscope: {options.output}: {sampler.lost[THE_FILE]}\n")
        return 1
    return 0


def _until_closed(closed: threading.Event) -> None:
    while sys.stdin.buffer.read(1):
        pass
    closed.set()


if __name__ == "__main__":
    sys.exit(main())
