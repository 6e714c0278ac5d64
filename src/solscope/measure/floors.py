"""The least time of a kernel: alone, as a profiler records it, and in a graph."""

from __future__ import annotations

import json
import statistics
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from solscope.measure.card import OPTIONAL, Card, Probe, Reading, first_line

GRAPH_KERNELS = 1000
"""Empty kernels in one graph: enough to make the launch of the graph itself negligible."""
EMPTY_SOURCE = 'extern "C" __global__ void solscope_empty() {}'


def floors(card: Card) -> Iterator[Reading]:
    """Device time of an empty kernel, alone and in a graph."""
    empty, what = _empty_kernel(card)
    graph = card.torch.cuda.CUDAGraph()
    with card.torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            empty()
    timing = card.time(graph.replay, warm_s=0.1, timed_s=0.3)
    period = timing.median_ms / 1e3 / GRAPH_KERNELS
    how = f"per kernel in a graph of {GRAPH_KERNELS} {what} kernels, {timing.spread}"
    yield Reading("chip", "graph.floor", period, "s", how)
    yield least_floor(_profiled_seconds(card.torch, empty, graph.replay), period, what)


def least_floor(durations: Sequence[float], period: float, what: str) -> Reading:
    """The smaller of the shortest recorded duration and the time per kernel in a graph."""
    if not durations:
        return Reading("chip", "launch.floor", period, "s", f"graph.floor ({what} kernel)")
    shortest, typical = min(durations) * 1e6, statistics.median(durations) * 1e6
    recorded = f"torch.profiler: shortest {shortest:.3f} us, median {typical:.3f} us"
    how = f"the smaller of graph.floor and what {len(durations)} {what} kernels took in {recorded}"
    return Reading("chip", "launch.floor", min(period, *durations), "s", how)


def _empty_kernel(card: Card) -> tuple[Probe, str]:
    kernel = card.compile(EMPTY_SOURCE, "solscope_empty")
    if kernel is not None:
        try:
            kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[])
            card.torch.cuda.synchronize()
        except OPTIONAL as error:
            card.skipped.append(f"empty kernel: {first_line(error)}")
        else:
            return lambda: kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[]), "empty"
    card.torch.cuda._sleep(0)
    return lambda: card.torch.cuda._sleep(0), "zero-cycle sleep"


def _profiled_seconds(torch: Any, single: Probe, many: Probe) -> list[float]:
    """Durations of all kernels of 100 `single` and one `many`, as torch.profiler records them."""
    kinds = torch.profiler.ProfilerActivity
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profiler:
            for _ in range(100):
                single()
            many()
            torch.cuda.synchronize()
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return kernel_seconds(json.loads(file.read_text(encoding="utf-8")))


def kernel_seconds(trace: dict[str, Any]) -> list[float]:
    """Durations of the kernels of a Chrome trace; its unit is microseconds."""
    return [
        float(event["dur"]) / 1e6
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel" and event.get("dur", 0) > 0
    ]
