"""Clocks, power, temperature and throttling of the GPU during timed calls, from NVML.

A thread of the evaluator reads every 20 ms; a result takes the readings of its own windows.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from solscope.bench.base import Sensors
from solscope.bench.statistics import median

PERIOD_S = 0.02
BUSY_PCT = 5
THROTTLE = {
    0x2: "applications clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Reasons by their bit; idle (1), sync boost (16) and display (256) are none."""
_SM, _MEMORY, _GPU_TEMPERATURE = 1, 2, 0


class Reading(NamedTuple):
    """One look at the GPU."""

    at: float
    """`time.monotonic`."""
    sm_clock_mhz: float
    memory_clock_mhz: float
    power_w: float
    temperature_c: float
    throttle: int


class Nvml:
    """The first GPU, through NVML; `OSError` where there is none."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByIndex_v2(
            0, ctypes.byref(self._device)
        ):
            raise OSError("NVML does not answer")

    def _number(self, function: str, *arguments: Any, kind: Any = ctypes.c_uint) -> float:
        value = kind()
        failed = getattr(self._library, function)(self._device, *arguments, ctypes.byref(value))
        return float("nan") if failed else float(value.value)

    def read(self) -> Reading:
        """Read everything once."""
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return Reading(
            time.monotonic(),
            self._number("nvmlDeviceGetClockInfo", _SM),
            self._number("nvmlDeviceGetClockInfo", _MEMORY),
            self._number("nvmlDeviceGetPowerUsage") / 1e3,
            self._number("nvmlDeviceGetTemperature", _GPU_TEMPERATURE),
            int(reasons) if reasons == reasons else 0,
        )

    def busy_pct(self) -> float:
        """Share of the last moment in which the GPU worked."""

        class Utilization(ctypes.Structure):
            _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))

        found = Utilization()
        reader = self._library.nvmlDeviceGetUtilizationRates
        return 0.0 if reader(self._device, ctypes.byref(found)) else float(found.gpu)

    def driver(self) -> str:
        """Version of the driver."""
        text = ctypes.create_string_buffer(96)
        self._library.nvmlSystemGetDriverVersion(text, 96)
        return text.value.decode()


class Watch:
    """Reads the GPU in the background; a context manager."""

    def __init__(self, device: str) -> None:
        self.readings: list[Reading] = []
        self.reason: str | None = None
        self.nvml: Nvml | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if device == "cpu":
            self.reason = "no GPU is used"
            return
        try:
            self.nvml = Nvml()
        except (OSError, AttributeError) as error:
            self.reason = f"NVML: {error}"

    def __enter__(self) -> Watch:
        if self.nvml is not None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self.nvml is not None and not self._stop.wait(PERIOD_S):
            self.readings.append(self.nvml.read())

    def during(self, windows: Sequence[tuple[float, float]]) -> Sensors:
        """What was read in these windows."""
        found = [r for r in self.readings if any(a <= r.at <= b for a, b in windows)]
        if not found:
            return Sensors(reason=self.reason or "the timed calls were over before a reading")
        seen = 0
        for reading in found:
            seen |= reading.throttle
        return Sensors(
            sm_clock_mhz=_range([reading.sm_clock_mhz for reading in found]),
            memory_clock_mhz=_range([reading.memory_clock_mhz for reading in found]),
            power_w=_range([reading.power_w for reading in found]),
            temperature_c=_range([reading.temperature_c for reading in found]),
            throttle=[name for bit, name in THROTTLE.items() if seen & bit],
        )


def _range(values: Sequence[float]) -> list[float]:
    known = [value for value in values if value == value]
    return [min(known), median(known), max(known)] if known else []
