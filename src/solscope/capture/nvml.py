"""NVIDIA GPUs, through the driver's own library (NVML) and ctypes: no package is needed.

Two sensors per GPU: `GpuState`, and `GpuLink` apart, because each PCIe reading blocks for 20 ms.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_uint, c_ulonglong
from typing import Any

from solscope.capture.base import GPU_METRICS, MissingSensorError, Write
from solscope.capture.process import descends

_SUCCESS = 0
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_TRANSMIT, _RECEIVE = 0, 1
_CORE_TEMPERATURE = 0
_MAX_PROCESSES = 64
"""Processes of a GPU that are read, at most."""
_MAX_SAMPLES = 1024
"""Samples of processes that are read at a time, at most."""
_UNKNOWN_BYTES = (1 << 64) - 1
"""What NVML gives for memory that it does not know."""


class Utilization(ctypes.Structure):
    """Shares of the last moments in which the GPU, and its memory, worked; percent."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


class _ProcessSample(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("timestamp_us", c_ulonglong),
        ("sm", c_uint),
        ("memory", c_uint),
        ("encoder", c_uint),
        ("decoder", c_uint),
    )


class Nvml:
    """The loaded library; every call either answers or gives null."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise MissingSensorError(f"no NVIDIA driver library ({error})") from error
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        if code := self._library.nvmlInit_v2():
            raise MissingSensorError(f"NVML does not start: {self.explain(code)}")

    def explain(self, code: int) -> str:
        return str(self._library.nvmlErrorString(code).decode())

    def call(self, name: str, *arguments: Any) -> int:
        """The return code of function `name`; 13 (function not found) if it is missing."""
        function = getattr(self._library, name, None)
        return 13 if function is None else int(function(*arguments))

    def devices(self) -> list[ctypes.c_void_p]:
        count = c_uint()
        self.call("nvmlDeviceGetCount_v2", byref(count))
        handles = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.call("nvmlDeviceGetHandleByIndex_v2", index, byref(handle)) == _SUCCESS:
                handles.append(handle)
        return handles

    def by_uuid(self, uuid: str) -> ctypes.c_void_p | None:
        """The device with this CUDA UUID."""
        handle = ctypes.c_void_p()
        code = self.call("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}".encode(), byref(handle))
        return handle if code == _SUCCESS else None

    def number(self, name: str, handle: ctypes.c_void_p, *arguments: int) -> int | None:
        """A reading that is one number of 32 bits."""
        value = c_uint()
        ok = self.call(name, handle, *arguments, byref(value)) == _SUCCESS
        return value.value if ok else None

    def long(self, name: str, handle: ctypes.c_void_p) -> int | None:
        """A reading that is one number of 64 bits."""
        value = c_ulonglong()
        return value.value if self.call(name, handle, byref(value)) == _SUCCESS else None


class GpuState:
    """Utilization, clocks, limits, power, temperature, memory and the processes of one GPU."""

    name = "NVIDIA GPU (NVML)"
    metrics = (
        *GPU_METRICS,
        "gpu_energy_mj",
        "gpu_temperature",
        "gpu_throttle_reasons",
        "gpu_processes",
        "gpu_other_processes",
        "gpu_other_mem_used",
        "gpu_process_usage",
        "gpu_other_usage",
    )
    slow = True

    def __init__(self, nvml: Nvml, index: int, handle: ctypes.c_void_p, pid: int | None) -> None:
        self._nvml, self._handle, self._pid = nvml, handle, pid
        self.device = f"GPU {index}"
        self._seen_us = 0
        self._recognized = False
        self._samples = (_ProcessSample * _MAX_SAMPLES)()
        self._processes = (_Process * _MAX_PROCESSES)()

    def sample(self, write: Write) -> None:
        rates = Utilization()
        if self._call("nvmlDeviceGetUtilizationRates", byref(rates)):
            self._write(write, gpu_usage=rates.gpu, gpu_mem_util=rates.memory)
        number, handle = self._nvml.number, self._handle
        self._write(
            write,
            gpu_sm_frequency=number("nvmlDeviceGetClockInfo", handle, _SM_CLOCK),
            gpu_mem_frequency=number("nvmlDeviceGetClockInfo", handle, _MEMORY_CLOCK),
            gpu_power_mw=number("nvmlDeviceGetPowerUsage", handle),
            gpu_temperature=number("nvmlDeviceGetTemperature", handle, _CORE_TEMPERATURE),
            gpu_energy_mj=self._nvml.long("nvmlDeviceGetTotalEnergyConsumption", handle),
            gpu_throttle_reasons=self._nvml.long(
                "nvmlDeviceGetCurrentClocksThrottleReasons", handle
            ),
        )
        memory = _Memory()
        if self._call("nvmlDeviceGetMemoryInfo", byref(memory)):
            self._write(write, gpu_mem_used=memory.used)
        self._sample_processes(write)
        self._sample_shares(write)

    def _sample_processes(self, write: Write) -> None:
        count = c_uint(_MAX_PROCESSES)
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        if not self._call(name, byref(count), self._processes):
            return
        running = self._processes[: count.value]
        others = [process for process in running if not self._ours(process.pid)]
        self._write(write, gpu_processes=len(running))
        # In a container the driver may give the host's process numbers, none of which is ours:
        # then other processes cannot be identified.
        self._recognized = len(others) < len(running)
        if self._recognized or not running:
            used = [process.used for process in others]
            total = None if _UNKNOWN_BYTES in used else sum(used)
            self._write(write, gpu_other_processes=len(others), gpu_other_mem_used=total)

    def _sample_shares(self, write: Write) -> None:
        """Each process's share of the SMs since the last sample, where the driver measured it."""
        count = c_uint(_MAX_SAMPLES)
        ok = self._call(
            "nvmlDeviceGetProcessUtilization",
            self._samples,
            byref(count),
            c_ulonglong(self._seen_us),
        )
        if not ok or not self._recognized:
            return
        latest: dict[int, tuple[int, int]] = {}
        for sample in self._samples[: count.value]:
            if (
                sample.sm <= 100
                and sample.timestamp_us > latest.get(sample.pid, (self._seen_us, 0))[0]
            ):
                latest[sample.pid] = (sample.timestamp_us, sample.sm)
        if not latest:
            return
        self._seen_us = max(time_us for time_us, _ in latest.values())
        ours = sum(sm for pid, (_, sm) in latest.items() if self._ours(pid))
        theirs = sum(sm for pid, (_, sm) in latest.items() if not self._ours(pid))
        self._write(write, gpu_process_usage=ours, gpu_other_usage=theirs)

    def _ours(self, pid: int) -> bool:
        return self._pid is not None and descends(pid, self._pid)

    def _call(self, name: str, *arguments: Any) -> bool:
        return self._nvml.call(name, self._handle, *arguments) == _SUCCESS

    def _write(self, write: Write, **values: int | None) -> None:
        now = time.time_ns()
        for metric, value in values.items():
            if value is not None:
                write(now, metric, self.device, value)


class GpuLink:
    """PCIe traffic of one GPU, each direction over a window of 20 ms."""

    name = "NVIDIA PCIe traffic (NVML)"
    metrics = ("gpu_pcie_transmit", "gpu_pcie_receive")
    slow = True

    def __init__(self, nvml: Nvml, index: int, handle: ctypes.c_void_p) -> None:
        self._nvml, self._handle = nvml, handle
        self.device = f"GPU {index}"
        self._directions = ((_TRANSMIT, "gpu_pcie_transmit"), (_RECEIVE, "gpu_pcie_receive"))

    def sample(self, write: Write) -> None:
        for direction, metric in self._directions:
            rate = self._nvml.number("nvmlDeviceGetPcieThroughput", self._handle, direction)
            if rate is not None:
                write(time.time_ns(), metric, self.device, rate)
