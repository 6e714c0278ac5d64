"""Sensors of the whole machine: CPU use, frequency, pressure, memory, and an optional spin loop."""

from __future__ import annotations

import re
import time
from pathlib import Path

from solscope.capture.base import HOST, MissingSensorError, ProcFile, Write

_RUNNING = re.compile(rb"^procs_running (\d+)", re.MULTILINE)
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_CPU_MHZ = re.compile(rb"^cpu MHz\s*:\s*([\d.]+)", re.MULTILINE)
_TOTAL = re.compile(rb"^(some|full) .*total=(\d+)", re.MULTILINE)
_MAX_FREQUENCY_FILES = 64
"""Cores whose clock is read, at most: each is a file."""


class CpuTime:
    """Use of all cores, stolen and waiting time, and how many threads want to run."""

    name = "CPU use of the machine"
    metrics = ("host_cpu_usage", "host_cpu_steal", "host_cpu_iowait", "host_procs_running")
    slow = True

    def __init__(self) -> None:
        self._file = ProcFile("/proc/stat", 1 << 18)
        self._before: list[int] | None = None

    def sample(self, write: Write) -> None:
        text = self._file.read()
        now = time.time_ns()
        # user nice system idle iowait irq softirq steal; guest time is within user time.
        ticks = [int(field) for field in text[: text.index(b"\n")].split()[1:9]]
        if self._before is not None:
            spent = [after - before for after, before in zip(ticks, self._before, strict=True)]
            if total := sum(spent):
                write(now, "host_cpu_usage", HOST, _percent(total - spent[3] - spent[4], total))
                write(now, "host_cpu_iowait", HOST, _percent(spent[4], total))
                write(now, "host_cpu_steal", HOST, _percent(spent[7], total))
                self._before = ticks
        else:
            self._before = ticks
        if match := _RUNNING.search(text):
            write(now, "host_procs_running", HOST, int(match[1]))


class Frequency:
    """Mean clock of the cores.

    /proc/cpuinfo, the way without cpufreq, is dear on a machine with many cores: it is read so
    seldom that it takes no more than `SHARE` of a core.
    """

    name = "CPU frequency"
    metrics = ("cpu_frequency",)
    slow = True
    SHARE = 0.002

    def __init__(self) -> None:
        self._due_ns = 0
        cores = Path("/sys/devices/system/cpu")
        paths = sorted(cores.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))[:_MAX_FREQUENCY_FILES]
        self._files = [ProcFile(str(path), 32) for path in paths]
        self._info = None if self._files else ProcFile("/proc/cpuinfo", 1 << 18)
        if self._info is not None and not _CPU_MHZ.search(self._info.read()):
            raise MissingSensorError("neither cpufreq nor /proc/cpuinfo has the CPU frequency")

    def sample(self, write: Write) -> None:
        begin = time.monotonic_ns()
        if begin < self._due_ns:
            return
        if self._info is None:
            clocks = [int(file.read()) / 1000 for file in self._files]
        else:
            clocks = [float(clock) for clock in _CPU_MHZ.findall(self._info.read())]
            spent = time.monotonic_ns() - begin
            self._due_ns = begin + round(spent / self.SHARE)
        write(time.time_ns(), "cpu_frequency", HOST, round(sum(clocks) / len(clocks), 1))


class Pressure:
    """Time in which some (or all) tasks waited for CPU, I/O or memory."""

    name = "pressure (PSI)"
    metrics = tuple(
        f"psi_{resource}_{share}_ns"
        for resource in ("cpu", "io", "memory")
        for share in ("some", "full")
    )
    slow = True

    def __init__(self) -> None:
        resources = ("cpu", "io", "memory")
        self._files = [(name, ProcFile(f"/proc/pressure/{name}", 256)) for name in resources]

    def sample(self, write: Write) -> None:
        for resource, file in self._files:
            text = file.read()
            now = time.time_ns()
            for share, total_us in _TOTAL.findall(text):
                write(now, f"psi_{resource}_{share.decode()}_ns", HOST, int(total_us) * 1000)


class Memory:
    """Memory that could still be used."""

    name = "memory of the machine"
    metrics = ("host_mem_available",)
    slow = True

    def __init__(self) -> None:
        self._file = ProcFile("/proc/meminfo", 512)
        if not _AVAILABLE.search(self._file.read()):
            raise MissingSensorError("/proc/meminfo has no MemAvailable")

    def sample(self, write: Write) -> None:
        if match := _AVAILABLE.search(self._file.read()):
            write(time.time_ns(), "host_mem_available", HOST, int(match[1]) * 1024)


class Spin:
    """Wall and CPU time of a fixed loop: distinguishes a slow core from a shared one.

    A lower clock makes both longer; a busy core only the first. It costs about 0.3 ms of CPU per
    sample, so it runs only on request and not more often than every `PERIOD_NS`.
    """

    name = "spin calibration"
    metrics = ("spin_wall_us", "spin_cpu_us")
    slow = True
    PERIOD_NS = 200_000_000
    ROUNDS = 10_000

    def __init__(self) -> None:
        self._last_ns = 0

    def sample(self, write: Write) -> None:
        wall = time.perf_counter_ns()
        if wall - self._last_ns < self.PERIOD_NS:
            return
        self._last_ns = wall
        cpu = time.thread_time_ns()
        for _ in range(self.ROUNDS):
            pass
        spent_cpu = time.thread_time_ns() - cpu
        spent_wall = time.perf_counter_ns() - wall
        now = time.time_ns()
        write(now, "spin_wall_us", HOST, spent_wall / 1000)
        write(now, "spin_cpu_us", HOST, spent_cpu / 1000)


HOST_SENSORS = (CpuTime, Frequency, Pressure, Memory)


def _percent(busy: int, total: int) -> float:
    return round(100.0 * busy / total, 2)
