"""What a sensor is: it opens once, then writes samples cheaply, and says why when it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

Write = Callable[[int, str, str, float], None]
"""Takes one sample: Unix time in ns, metric, device (`Host`, `GPU 0`), value."""
HOST = "Host"
GPU_METRICS = (
    "gpu_usage",
    "gpu_mem_util",
    "gpu_sm_frequency",
    "gpu_mem_frequency",
    "gpu_mem_used",
    "gpu_power_mw",
)
"""What every vendor's library reads."""


class MissingSensorError(Exception):
    """A sensor is not to be had on this machine; the message says why."""


class Sensor(Protocol):
    """One source of samples."""

    @property
    def name(self) -> str:
        """What it reads, in words."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics it writes."""

    @property
    def slow(self) -> bool:
        """Whether a sample is too expensive, or changes too rarely, to be read at every tick."""

    def sample(self, write: Write) -> None:
        """Write one sample of each metric; OSError when the source is gone."""


class ProcFile:
    """A file of /proc, /sys or a cgroup that stays open and is read from its start each time."""

    def __init__(self, path: str, size: int = 4096) -> None:
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise MissingSensorError(f"{path}: {error.strerror}") from error
        self._size = size
        self.path = path
        try:
            self.read()
        except OSError as error:
            self.close()
            raise MissingSensorError(f"{path}: {error.strerror}") from error

    def read(self) -> bytes:
        return os.pread(self._descriptor, self._size, 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()
