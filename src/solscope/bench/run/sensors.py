"""Clocks, power, temperature and throttling of the GPU during timed calls, from NVML.

A thread of the evaluator reads every 20 ms; a result takes the readings of its own windows.
"""

from __future__ import annotations

import ctypes
import threading
import time
from bisect import bisect
from collections.abc import Sequence
from typing import NamedTuple

from solscope.bench.base import Sensors
from solscope.bench.run.machine import gpu_uuid
from solscope.bench.run.statistics import median
from solscope.capture.base import MissingSensorError
from solscope.capture.nvml import Nvml, Utilization

PERIOD_S = 0.02
"""Between readings of the GPU."""
BUSY_PCT = 5
"""A GPU that works for more than this share of the time is not timed on: others use it."""
BUSY_READINGS = 5
"""Readings of the GPU's use before a run."""
BUSY_PAUSE_S = 0.5
"""Seconds from one of them to the next."""
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


class Card:
    """The GPU that is timed; MissingSensorError where NVML does not know it.

    NVML counts all GPUs of the machine, CUDA those that the process may see: of several the one
    with torch's UUID is taken.
    """

    def __init__(self, uuid: str | None) -> None:
        self._nvml = Nvml()
        devices = self._nvml.devices()
        if not devices:
            raise MissingSensorError("NVML finds no GPU")
        device = self._nvml.by_uuid(uuid) if uuid is not None and len(devices) > 1 else None
        if device is None and len(devices) > 1:
            raise MissingSensorError(f"NVML does not show which of {len(devices)} GPUs is timed")
        self._device = devices[0] if device is None else device

    def _number(self, name: str, *arguments: int) -> float:
        value = self._nvml.number(name, self._device, *arguments)
        return float("nan") if value is None else float(value)

    def read(self) -> Reading:
        """Read everything once."""
        return Reading(
            time.monotonic(),
            self._number("nvmlDeviceGetClockInfo", _SM),
            self._number("nvmlDeviceGetClockInfo", _MEMORY),
            self._number("nvmlDeviceGetPowerUsage") / 1e3,
            self._number("nvmlDeviceGetTemperature", _GPU_TEMPERATURE),
            self._nvml.long("nvmlDeviceGetCurrentClocksThrottleReasons", self._device) or 0,
        )

    def busy_pct(self) -> float:
        """Share of the last moments in which the GPU worked, in the quietest of them."""
        utilization = Utilization()
        readings = []
        for _ in range(BUSY_READINGS):
            code = self._nvml.call(
                "nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(utilization)
            )
            readings.append(0.0 if code else float(utilization.gpu))
            if not readings[-1]:
                break
            time.sleep(BUSY_PAUSE_S)
        return min(readings)

    def driver(self) -> str:
        """Version of the driver."""
        text = ctypes.create_string_buffer(96)
        self._nvml.call("nvmlSystemGetDriverVersion", text, 96)
        return text.value.decode()


class Watch:
    """Reads the GPU in the background; a context manager."""

    def __init__(self, device: str) -> None:
        self.readings: list[Reading] = []
        self.reason: str | None = None
        self.card: Card | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if device == "cpu":
            self.reason = "no GPU is used"
            return
        try:
            self.card = Card(gpu_uuid())
        except MissingSensorError as error:
            self.reason = str(error)

    def __enter__(self) -> Watch:
        if self.card is not None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self.card is not None and not self._stop.wait(PERIOD_S):
            self.readings.append(self.card.read())

    def during(self, windows: Sequence[tuple[float, float]]) -> Sensors:
        """What was read in these windows."""
        taken = list(self.readings)
        times = [reading.at for reading in taken]
        readings = [r for a, b in windows for r in taken[bisect(times, a) : bisect(times, b)]]
        if not readings:
            return Sensors(reason=self.reason or "the timed calls were over before a reading")
        seen = 0
        for reading in readings:
            seen |= reading.throttle
        return Sensors(
            sm_clock_mhz=_range([reading.sm_clock_mhz for reading in readings]),
            memory_clock_mhz=_range([reading.memory_clock_mhz for reading in readings]),
            power_w=_range([reading.power_w for reading in readings]),
            temperature_c=_range([reading.temperature_c for reading in readings]),
            throttle=[name for bit, name in THROTTLE.items() if seen & bit],
        )


def _range(values: Sequence[float]) -> list[float]:
    finite = [value for value in values if value == value]
    return [min(finite), median(finite), max(finite)] if finite else []
