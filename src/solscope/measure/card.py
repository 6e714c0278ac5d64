"""The GPU under test: how work on it is timed, and what a measurement gives."""

from __future__ import annotations

import math
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

WINDOW_MS = 20.0
"""Calls are timed in windows of at least this length, far above the resolution of events."""
WARM_S = 0.3
"""Seconds of calls before timing starts, so that clock and power settle."""
TIMED_S = 0.7
"""Seconds of calls that are timed."""
BURSTS = 7
BURST_MS = 10.0
"""Milliseconds of calls in a burst: short, so that the power limit does not lower the clock yet."""
PAUSE_S = 0.15
"""Seconds without work before a burst."""
OPTIONAL = (RuntimeError, AttributeError, NotImplementedError, TypeError, ValueError, OSError)
"""Raised by torch for a type or function that this GPU or version does not support."""

Probe = Callable[[], object]


@dataclass(frozen=True)
class Reading:
    """One measured number."""

    section: str
    name: str
    value: float
    unit: str
    method: str


@dataclass(frozen=True)
class MeasuredCard:
    """All that was measured on one card."""

    name: str
    device: str
    vendor: str
    arch: str
    readings: list[Reading]
    about: dict[str, str]


@dataclass(frozen=True)
class ProbeTimes:
    """Milliseconds per call, one number per window."""

    windows_ms: list[float]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.windows_ms)

    @property
    def spread(self) -> str:
        """Middle half of the windows, relative to the median."""
        if len(self.windows_ms) < 2:
            return "1 window"
        low, _, high = statistics.quantiles(self.windows_ms, n=4, method="inclusive")
        around = 100 * (high - low) / self.median_ms
        return f"median of {len(self.windows_ms)} windows, middle half within {around:.1f} %"


@dataclass
class Card:
    """The GPU under test, and how to time work on it."""

    torch: Any
    skipped: list[str] = field(default_factory=list)

    @property
    def properties(self) -> Any:
        return self.torch.cuda.get_device_properties(0)

    @property
    def is_amd(self) -> bool:
        return bool(getattr(self.torch.version, "hip", None))

    def time(self, run: Probe, *, warm_s: float = WARM_S, timed_s: float = TIMED_S) -> ProbeTimes:
        """Time `run` in windows, after a warm-up, without a pause between windows."""
        run()
        self.torch.cuda.synchronize()
        calls = calls_in(WINDOW_MS, self._window(run, 3)())
        for _ in range(math.ceil(warm_s * 1e3 / WINDOW_MS)):
            self._window(run, calls)
        windows = max(9, math.ceil(timed_s * 1e3 / WINDOW_MS))
        waiting = [self._window(run, calls) for _ in range(windows)]
        return ProbeTimes([milliseconds() for milliseconds in waiting])

    def time_bursts(self, run: Probe, call_ms: float) -> ProbeTimes:
        """Time `run` in short bursts, the card idle before each."""
        calls = calls_in(BURST_MS, call_ms)
        times_ms = []
        for _ in range(BURSTS):
            time.sleep(PAUSE_S)
            run()
            times_ms.append(self._window(run, calls)())
        return ProbeTimes(times_ms)

    def _window(self, run: Probe, calls: int) -> Callable[[], float]:
        """Enqueue `calls` calls; the result waits for them and gives milliseconds per call."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            run()
        end.record()

        def milliseconds() -> float:
            end.synchronize()
            return float(start.elapsed_time(end)) / calls

        return milliseconds

    def state_during(self, run: Probe, call_ms: float) -> str:
        """Clock and power while `run` repeats for about half a second; "" without nvidia-smi."""
        for _ in range(math.ceil(500 / call_ms)):
            run()
        state = smi("clocks.sm", "power.draw")
        self.torch.cuda.synchronize()
        return f"; {state['clocks.sm']}, {state['power.draw']} during it" if state else ""

    def compile(self, source: str, name: str) -> Any | None:
        """A kernel from CUDA source; null where this torch or this card cannot."""
        make = getattr(self.torch.cuda, "_compile_kernel", None)
        if make is None:
            return None
        try:
            return make(source, name)
        except OPTIONAL as error:
            self.skipped.append(f"compiling {name}: {first_line(error)}")
            return None


def calls_in(window_ms: float, call_ms: float) -> int:
    """How many calls fill a window."""
    return max(1, math.ceil(window_ms / max(call_ms, 1e-4)))


def l2_size(card: Card) -> int:
    """Bytes of L2 that the driver reports; 0 when it does not."""
    return int(getattr(card.properties, "L2_cache_size", 0))


def short_name(device: str) -> str:
    """The short name in a device name: `H200` for `NVIDIA H200`."""
    model = re.search(r"\b(GB\d{3}|[ABH]\d{2,3}|L\d{1,2}S?|MI\d{3}[AX]?|RTX \d{4})\b", device)
    if model is None:
        return re.sub(r"\W+", "-", device.removeprefix("NVIDIA ").removeprefix("AMD ")).strip("-")
    name = model.group().replace(" ", "")
    return f"{name}-PCIe" if name == "H100" and "PCIe" in device else name


def first_line(error: BaseException) -> str:
    """One line of a message of torch, which may print a page."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def smi(*fields: str) -> dict[str, str]:
    """What nvidia-smi says of GPU 0; empty without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = f"--query-gpu={','.join(fields)}"
    try:
        done = subprocess.run(
            [program, query, "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(fields, values, strict=True)) if len(values) == len(fields) else {}


def describe(card: Card, device: str) -> dict[str, str]:
    """Device, versions, and limits of clocks and power."""
    version = card.torch.version
    about = {
        "device": device,
        "torch": str(card.torch.__version__),
        "runtime": f"ROCm {version.hip}" if card.is_amd else f"CUDA {version.cuda}",
    }
    fields = ("driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit", "temperature.gpu")
    return about | smi(*fields)
