"""Device time of single calls, measured in the candidate's process with functions taken early.

Everything it calls is bound before the solution is imported. Each timed call: tensors that are
updated in place are put back, the L2 is filled with other clean lines (cold), a spin kernel holds
the stream while the host queues the call, and then start event, call, end event. Kineto, where
asked for, gives the span from the first to the last activity of the call on any stream; events give
the same from outside.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

FLUSHED_L2_SIZES = 2
"""The flushed bytes, in sizes of the L2."""
CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6
"""Number of the limit in CUDA's driver API."""
SPIN = "spin_kernel"
"""The kernel of torch.cuda._sleep, launched before and after every timed call."""


class Calls(Protocol):
    """What happens before and after a timed call on a set."""

    def put_back(self, index: int) -> None:
        """Make the set ready."""

    def done(self, index: int, returned: Any) -> None:
        """Take what the call returned; its clock has stopped."""


class _Unkept:
    """Calls of which nothing is kept."""

    def put_back(self, index: int) -> None:
        pass

    def done(self, index: int, returned: Any) -> None:
        pass


class DeviceTimer:
    """Times calls on the current device."""

    def __init__(self, torch: ModuleType) -> None:
        self.clock = time.perf_counter
        self.wait = torch._C._cuda_synchronize
        self.event = torch._C._CudaEventBase
        self.sleep = torch._C._cuda_sleep
        self.stream = torch.cuda.current_stream
        self.profile = torch.profiler.profile
        self.activity = torch.profiler.ProfilerActivity.CUDA
        self.make_graph = torch.cuda.CUDAGraph
        self.graph_context = torch.cuda.graph
        properties = torch.cuda.get_device_properties(0)
        self.cycles_per_us = float(getattr(properties, "clock_rate", None) or 1.7e6) / 1e3
        words = FLUSHED_L2_SIZES * int(properties.L2_cache_size) // 4
        self.flushed = torch.zeros(words, dtype=torch.float32, device="cuda")
        self.total = torch.empty((), dtype=torch.float32, device="cuda")
        self.add = torch.sum
        self.graph: Any = None
        self.reset_persisting = _forbid_persisting()

    def sync(self) -> None:
        """Wait for all work of this process on the device."""
        self.wait()

    def flush(self) -> None:
        """Fill the L2 with clean lines: a write would leave dirty ones for the call to evict."""
        self.add(self.flushed, dim=0, out=self.total)

    def rehearse(self) -> None:
        """Start and stop the profiler."""
        self.time(lambda _: self.flush(), _Unkept(), [(0, False)], True, 10.0)

    def time(
        self,
        call: Callable[[int], Any],
        calls: Calls,
        order: Sequence[tuple[int, bool]],
        kineto: bool,
        spin_us: float,
    ) -> dict[str, Any]:
        """One sample per entry (set, cold); what each call returned is handed to `calls`."""
        self.reset_persisting()
        cycles = int(spin_us * self.cycles_per_us)
        rows: list[tuple[float, float, float]] = []

        def sequence() -> None:
            for index, cold in order:
                calls.put_back(index)
                if cold:
                    self.flush()
                returned, times = self._one(call, index, cycles)
                rows.append(times)
                calls.done(index, returned)

        reply: dict[str, Any] = {}
        if kineto:
            profiler = self.profile(activities=[self.activity])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profiler.start()
                try:
                    sequence()
                finally:
                    self.wait()
                    profiler.stop()
            reply |= spans(profiler.profiler.kineto_results.events(), len(order))
        else:
            sequence()
        reply["events_us"] = [row[0] for row in rows]
        reply["host_us"] = [row[1] for row in rows]
        reply["lag_us"] = [row[2] for row in rows]
        return reply

    def _one(
        self, call: Callable[[int], Any], index: int, cycles: int
    ) -> tuple[Any, tuple[float, float, float]]:
        start = self.event(enable_timing=True)
        end = self.event(enable_timing=True)
        stream = self.stream()
        self.sleep(cycles)
        start.record(stream)
        begun = self.clock()
        returned = call(index)
        queued = self.clock()
        end.record(stream)
        end.synchronize()
        ended = self.clock()
        self.wait()
        quiet = self.clock()
        self.sleep(1)
        times = (1e3 * start.elapsed_time(end), 1e6 * (queued - begun), 1e6 * (quiet - ended))
        return returned, times

    def capture(self, calls: Callable[[], Any]) -> Any:
        """Record calls in a graph; they must have run before."""
        self.graph = None
        graph = self.make_graph()
        self.wait()
        with self.graph_context(graph):
            outputs = calls()
        self.graph = graph
        return outputs

    def replay(self, times: int) -> None:
        """Replay the graph and wait."""
        for _ in range(times):
            self.graph.replay()
        self.wait()

    def free(self) -> None:
        """Release the graph."""
        self.graph = None


def spans(events: Any, calls: int) -> dict[str, Any]:
    """Span, busy time and number of activities of each call, between the spin kernels around it.

    A kernel on another stream may start while the first spin runs: activities are dealt out by
    their start against the starts of the spins. The second spin starts when all work was done.
    """
    all_spans = []
    for event in events:
        if str(event.device_type()).endswith("CUDA"):
            start, length = int(event.start_ns()), int(event.duration_ns())
            all_spans.append((start, start + length, str(event.name())))
    all_spans.sort()
    spins = [index for index, (_, _, name) in enumerate(all_spans) if SPIN in name]
    if len(spins) != 2 * calls:
        return {"span_reason": f"{len(spins)} spin kernels were recorded for {calls} calls"}
    span_us, busy_us, activities = [], [], []
    for first, last in zip(spins[::2], spins[1::2], strict=True):
        own = all_spans[first + 1 : last]
        if not own:
            return {"span_reason": "a call without any device activity"}
        span_us.append((max(end for _, end, _ in own) - own[0][0]) / 1e3)
        busy_us.append(sum(end - start for start, end, _ in own) / 1e3)
        activities.append(len(own))
    return {"span_us": span_us, "busy_us": busy_us, "activities": activities}


def _forbid_persisting() -> Callable[[], None]:
    """No line may persist in the L2 through a flush; returns what resets those set meanwhile."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
        reset = driver.cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return lambda: None
    return lambda: reset() and None
