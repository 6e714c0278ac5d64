"""Sensors of one process, from /proc/PID: CPU time, waiting for a core, switches, faults, I/O.

`oncpu_ns` and `runq_ns` are those of the main thread, which is the one that launches kernels in an
inference server; `process_cpu_ns` and everything else is of the whole process.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from solscope.capture.base import HOST, MissingSensorError, ProcFile, Write

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_VOLUNTARY = re.compile(rb"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
_INVOLUNTARY = re.compile(rb"nonvoluntary_ctxt_switches:\s+(\d+)")
_THREADS = re.compile(rb"^Threads:\s+(\d+)", re.MULTILINE)
_ALLOWED = re.compile(rb"^Cpus_allowed:\s+([0-9a-f,]+)", re.MULTILINE)


class Schedule:
    """On-CPU time of the main thread, and its waiting for a core."""

    name = "scheduler statistics of the process"
    metrics = ("oncpu_ns", "runq_ns")
    slow = False

    def __init__(self, pid: int) -> None:
        self._file = ProcFile(f"/proc/{pid}/schedstat", 128)

    def sample(self, write: Write) -> None:
        on_cpu, waiting, _ = self._file.read().split()
        now = time.time_ns()
        write(now, "oncpu_ns", HOST, int(on_cpu))
        write(now, "runq_ns", HOST, int(waiting))


class Status:
    """Context switches of the main thread; threads and allowed cores."""

    name = "context switches, threads and affinity of the process"
    metrics = ("ctx_vol", "ctx_invol", "process_threads", "affinity_cores")
    slow = False

    def __init__(self, pid: int) -> None:
        self._file = ProcFile(f"/proc/{pid}/status")

    def sample(self, write: Write) -> None:
        text = self._file.read()
        now = time.time_ns()
        for metric, pattern in (("ctx_vol", _VOLUNTARY), ("ctx_invol", _INVOLUNTARY)):
            if match := pattern.search(text):
                write(now, metric, HOST, int(match[1]))
        if match := _THREADS.search(text):
            write(now, "process_threads", HOST, int(match[1]))
        if match := _ALLOWED.search(text):
            mask = int(match[1].replace(b",", b""), 16)
            write(now, "affinity_cores", HOST, mask.bit_count())


class Stat:
    """Page faults and memory of the process."""

    name = "page faults and memory of the process"
    metrics = ("page_faults_minor", "page_faults_major", "process_mem_used")
    slow = False

    def __init__(self, pid: int) -> None:
        self._file = ProcFile(f"/proc/{pid}/stat", 1024)

    def sample(self, write: Write) -> None:
        text = self._file.read()
        now = time.time_ns()
        # The name, field 2, may hold spaces and brackets: count from the last bracket.
        fields = text[text.rindex(b")") + 2 :].split()
        write(now, "page_faults_minor", HOST, int(fields[7]))
        write(now, "page_faults_major", HOST, int(fields[9]))
        write(now, "process_mem_used", HOST, int(fields[21]) * PAGE_BYTES)


class Input:
    """Bytes and calls of reading and writing."""

    name = "input and output of the process"
    metrics = ("read_bytes", "read_calls", "write_bytes", "write_calls")
    slow = False
    _fields = (
        (b"read_bytes", "read_bytes"),
        (b"syscr", "read_calls"),
        (b"write_bytes", "write_bytes"),
        (b"syscw", "write_calls"),
    )

    def __init__(self, pid: int) -> None:
        self._file = ProcFile(f"/proc/{pid}/io", 512)

    def sample(self, write: Write) -> None:
        values = dict(line.split(b": ") for line in self._file.read().splitlines())
        now = time.time_ns()
        for field, metric in self._fields:
            write(now, metric, HOST, int(values[field]))


class CpuClock:
    """CPU time of all threads of the process, from its own clock, and the share of a core."""

    name = "CPU time of the process"
    metrics = ("process_cpu_ns",)
    slow = False

    def __init__(self, pid: int) -> None:
        # The kernel's encoding of "CPU clock of process pid" (include/linux/posix-timers.h).
        self._clock = (~pid << 3) | 2
        self._read()

    def _read(self) -> int:
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError as error:
            raise MissingSensorError(f"CPU clock of the process: {error.strerror}") from error

    def sample(self, write: Write) -> None:
        write(time.time_ns(), "process_cpu_ns", HOST, time.clock_gettime_ns(self._clock))


class CpuUsage:
    """Cores in use by the process since the last sample, in percent of one core."""

    name = "CPU usage of the process"
    metrics = ("process_cpu_usage",)
    slow = True

    def __init__(self, pid: int) -> None:
        self._clock = CpuClock(pid)
        self._before: tuple[int, int] | None = None

    def sample(self, write: Write) -> None:
        self._clock.sample(lambda now, _metric, _device, spent: self._difference(now, spent, write))

    def _difference(self, now: int, spent: float, write: Write) -> None:
        if self._before is not None and now > self._before[0]:
            share = 100.0 * (spent - self._before[1]) / (now - self._before[0])
            write(now, "process_cpu_usage", HOST, round(share, 2))
        self._before = (now, int(spent))


PROCESS_SENSORS = (Schedule, Status, Stat, Input, CpuClock, CpuUsage)


def descends(pid: int, ancestor: int) -> bool:
    """True for the process `ancestor` and those that it, or its children, started."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parent_of(pid)
    return False


def parent_of(pid: int) -> int:
    """The process that started `pid`; 0 when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(text[text.rindex(b")") + 2 :].split()[1])
