"""The sensors of this machine and a process, and why others are missing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from solscope.capture import amd
from solscope.capture.base import HOST, MissingSensorError, Sensor, Write
from solscope.capture.cgroups import Throttling
from solscope.capture.host import HOST_SENSORS, Spin
from solscope.capture.nvml import GpuLink, GpuState, Nvml
from solscope.capture.process import PROCESS_SENSORS


@dataclass(frozen=True)
class Missing:
    """A sensor that this machine, or this process, does not have."""

    name: str
    metrics: tuple[str, ...]
    reason: str


class OwnCost:
    """CPU time of the sampler itself, so that its overhead is in the file."""

    name = "CPU time of the sampler"
    metrics = ("capture_cpu_ns",)
    slow = True

    def sample(self, write: Write) -> None:
        write(time.time_ns(), "capture_cpu_ns", HOST, time.process_time_ns())


@dataclass
class Sensors:
    """What can be read here, and what cannot."""

    pid: int | None
    fast: list[Sensor] = field(default_factory=list)
    """Read at every tick."""
    slow: list[Sensor] = field(default_factory=list)
    gpu: list[Sensor] = field(default_factory=list)
    link: list[Sensor] = field(default_factory=list)
    """Links of GPUs, whose readings block."""
    missing: list[Missing] = field(default_factory=list)

    @property
    def present(self) -> list[Sensor]:
        return [*self.fast, *self.slow, *self.gpu, *self.link]


def find_sensors(pid: int | None, spin: bool = False) -> Sensors:
    """Open every sensor there is for process `pid` and this machine."""
    sensors = Sensors(pid)
    if pid is not None:
        for kind in (*PROCESS_SENSORS, Throttling):
            _add(sensors, kind, pid)
    for kind in (*HOST_SENSORS, *((Spin,) if spin else ())):
        _add(sensors, kind)
    sensors.slow.append(OwnCost())
    _add_nvidia(sensors)
    _add_amd(sensors)
    return sensors


def _add(sensors: Sensors, kind: Any, *arguments: int) -> None:
    try:
        sensor = kind(*arguments)
    except MissingSensorError as error:
        sensors.missing.append(Missing(kind.name, kind.metrics, str(error)))
        return
    (sensors.slow if sensor.slow else sensors.fast).append(sensor)


def _add_nvidia(sensors: Sensors) -> None:
    try:
        nvml = Nvml()
    except MissingSensorError as error:
        sensors.missing += [Missing(kind.name, kind.metrics, str(error)) for kind in NVIDIA]
        return
    for index, handle in enumerate(nvml.devices()):
        sensors.gpu.append(GpuState(nvml, index, handle, sensors.pid))
        sensors.link.append(GpuLink(nvml, index, handle))


def _add_amd(sensors: Sensors) -> None:
    try:
        library = amd.load()
        handles = library.amdsmi_get_processor_handles()
    except MissingSensorError as error:
        sensors.missing.append(Missing(amd.AmdGpu.name, amd.AmdGpu.metrics, str(error)))
        return
    sensors.gpu += [
        amd.AmdGpu(library, index, handle, sensors.pid) for index, handle in enumerate(handles)
    ]


NVIDIA = (GpuState, GpuLink)
