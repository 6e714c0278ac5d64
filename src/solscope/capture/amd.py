"""AMD GPUs, through AMD's own library: the `amdsmi` package that ROCm brings.

Readings are independent: those that a GPU or a virtual machine does not offer are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from solscope.capture.base import GPU_METRICS, MissingSensorError, Write
from solscope.capture.process import descends


def load() -> Any:
    """The library, started."""
    try:
        import amdsmi  # type: ignore[import-not-found]
    except ImportError as error:
        raise MissingSensorError("AMD's amdsmi package is not installed") from error
    except Exception as error:  # it loads a shared library, and fails in its own ways
        raise MissingSensorError(f"amdsmi cannot be loaded: {error}") from error
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        raise MissingSensorError(f"amdsmi does not start: {error}") from error
    return amdsmi


class AmdGpu:
    """Utilization, clocks, power, temperature, memory and processes of one GPU."""

    name = "AMD GPU (amdsmi)"
    metrics = (
        *GPU_METRICS,
        "gpu_temperature",
        "gpu_processes",
        "gpu_other_processes",
    )
    slow = True

    def __init__(self, library: Any, index: int, handle: Any, pid: int | None) -> None:
        self._library, self._handle, self._pid = library, handle, pid
        self.device = f"GPU {index}"

    def sample(self, write: Write) -> None:
        for metric, value in self._readings():
            if value is not None:
                write(time.time_ns(), metric, self.device, value)

    def _readings(self) -> Iterator[tuple[str, float | None]]:
        library = self._library
        activity = self._ask("amdsmi_get_gpu_activity")
        yield "gpu_usage", _number(activity, "gfx_activity")
        yield "gpu_mem_util", _number(activity, "umc_activity")
        for metric, kind in (("gpu_sm_frequency", "GFX"), ("gpu_mem_frequency", "MEM")):
            clock = self._ask("amdsmi_get_clock_info", getattr(library.AmdSmiClkType, kind))
            yield metric, _number(clock, "clk", "cur_clk")
        memory = _number(self._ask("amdsmi_get_gpu_vram_usage"), "vram_used")
        yield "gpu_mem_used", None if memory is None else memory * (1 << 20)
        power = self._ask("amdsmi_get_power_info")
        watts = _number(power, "current_socket_power", "average_socket_power")
        yield "gpu_power_mw", None if watts is None else watts * 1000
        yield (
            "gpu_temperature",
            _number(
                self._ask(
                    "amdsmi_get_temp_metric",
                    library.AmdSmiTemperatureType.HOTSPOT,
                    library.AmdSmiTemperatureMetric.CURRENT,
                )
            ),
        )
        processes = self._ask("amdsmi_get_gpu_process_list")
        if isinstance(processes, list):
            yield "gpu_processes", len(processes)
            if self._pid is not None:
                pids = [entry["pid"] for entry in processes if isinstance(entry, dict)]
                others = [pid for pid in pids if not descends(pid, self._pid)]
                # None of them ours: the numbers may be those outside a container.
                yield "gpu_other_processes", None if pids and others == pids else len(others)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """An answer of the library; null where the GPU has none."""
        try:
            return getattr(self._library, name)(self._handle, *arguments)
        except self._library.AmdSmiException:
            return None


def _number(answer: Any, *keys: str) -> float | None:
    """The first of `keys` that is a number; unsupported readings are the text `N/A`."""
    values = [answer.get(key) for key in keys] if isinstance(answer, dict) else [answer]
    numbers = (value for value in values if isinstance(value, int | float))
    return next((value for value in numbers if not isinstance(value, bool)), None)
