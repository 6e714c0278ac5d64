"""Observations written out by hand: a small serving run, and what can happen to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from solscope.diagnose.evidence.base import Check
from solscope.readers.metric_kinds import metric_kind
from solscope.readers.packed import (
    VERSION,
    Counter,
    HostCalls,
    HostOp,
    KernelClass,
    Observations,
    Run,
    Section,
    Step,
    Tile,
    TileKind,
)

SAMPLES = 12
_WIGGLE = (0, 7, -5, 3, -8, 5, 1, -3)
"""Tenths of a percent by which steps differ."""


@dataclass(frozen=True)
class Made:
    """A run: times in ms per step, calls per step, counters as shares, rates or readings."""

    steps: int = 20
    tiles: dict[str, float] = field(default_factory=dict)
    kernels: dict[tuple[str, str, str | None], tuple[float, float, str]] = field(
        default_factory=dict
    )
    """By category, name and type: calls per step, µs per call, grid."""
    calls: dict[str, float] = field(default_factory=dict)
    sections: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Own time in ms, and the part of it inside operators."""
    ops: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    """Calls, µs per call, and shapes."""
    counters: dict[str, float] = field(default_factory=dict)
    """Rates per second of counts that grow, else readings."""
    copies: dict[str, tuple[float, float, int]] = field(default_factory=dict)
    """By name: copies per step, µs per copy, bytes per copy."""
    phases: tuple[str, ...] = ("decode",)
    """Phases of steps, repeated."""
    requests: int | None = 32
    graph_pct: float = 0.0
    prefill_factor: float = 3.0

    def but(self, **changes: Any) -> Made:
        """The same run with some facts changed; dictionaries are merged."""
        merged: dict[str, Any] = {
            name: {**getattr(self, name), **value} if isinstance(value, dict) else value
            for name, value in changes.items()
        }
        return replace(self, **merged)

    def run(self, shift: int = 0) -> Observations:
        """As observations; `shift` moves the noise of steps along."""
        size = self.steps
        noise = [1 + _WIGGLE[(at + shift) % len(_WIGGLE)] / 1000 for at in range(size)]
        phases = [self.phases[at % len(self.phases)] for at in range(size)]
        weight = [
            n * (self.prefill_factor if p == "mixed" else 1.0)
            for n, p in zip(noise, phases, strict=True)
        ]

        def per_step(amount_ms: float) -> list[int]:
            return [round(amount_ms * 1e6 * w) for w in weight]

        tiles = [_tile(name, per_step(ms)) for name, ms in self.tiles.items()]
        walls = [sum(tile.ns[at] for tile in tiles) for at in range(size)]
        starts = [sum(walls[:at]) for at in range(size)]
        span = sum(walls)
        return Observations(
            solscope_observations=VERSION,
            run=self._run(span),
            steps=[
                Step(
                    at,
                    starts[at],
                    walls[at],
                    phases[at],
                    self.requests,
                    self.requests,
                    100,
                    at < size - 1,
                )
                for at in range(size)
            ],
            tiles=tiles,
            kernels=[*self._kernels(weight), *self._copies(weight)],
            host_calls=[
                HostCalls(kind, [round(n)] * size, [round(n * 5000)] * size)
                for kind, n in self.calls.items()
            ],
            sections=[
                Section(name, [1] * size, per_step(own), per_step(own), per_step(own * ops))
                for name, (own, ops) in self.sections.items()
            ],
            host_ops=[
                HostOp(
                    name,
                    n,
                    round(us * 1e3),
                    round(us * 1e3),
                    round(us * 2e3),
                    {shape: n} if shape else {},
                )
                for name, (n, us, shape) in self.ops.items()
            ],
            stalls=[],
            clocks=[[round(at * span / (SAMPLES - 1) / 1e5) for at in range(SAMPLES)]],
            counters=[self._counter(name, value, span) for name, value in self.counters.items()],
        )

    def _run(self, span: int) -> Run:
        return Run(
            name="made", format="kineto", gpus=["GPU-0"], framework=None, found_by="annotation",
            span_ns=span, unix_ns=0, processes=1, devices=1, stacks=False, shapes=True,
            operators=100, graph_share_pct=self.graph_pct, linked_pct=100.0, overhead_ns=0,
            dtypes={}, warnings=[],
        )  # fmt: skip

    def _kernels(self, weight: list[float]) -> list[KernelClass]:
        return [
            KernelClass(
                *key,
                calls=[round(calls)] * self.steps,
                ns=[round(calls * us * 1e3 * w) for w in weight],
                exposed_ns=[round(calls * us * 1e3 * w) for w in weight],
                p50_ns=round(us * 1e3),
                grids={grid: 100},
                bytes=0,
            )
            for key, (calls, us, grid) in self.kernels.items()
        ]

    def _copies(self, weight: list[float]) -> list[KernelClass]:
        return [
            KernelClass(
                "memcpy",
                name,
                None,
                calls=[round(calls)] * self.steps,
                ns=[round(calls * us * 1e3 * w) for w in weight],
                exposed_ns=[round(calls * us * 1e3 * w) for w in weight],
                p50_ns=round(us * 1e3),
                grids={},
                bytes=round(calls * size) * self.steps,
            )
            for name, (calls, us, size) in self.copies.items()
        ]

    def _counter(self, name: str, value: float, span: int) -> Counter:
        device = 0 if name.startswith("gpu_") else None
        if not metric_kind(name).counter:
            return Counter(name, device, False, 0, [value], SAMPLES)
        total = value * span / 1e9
        values = [total * at / (SAMPLES - 1) for at in range(SAMPLES)]
        return Counter(name, device, True, 0, values, SAMPLES)


def _tile(name: str, ns: list[int]) -> Tile:
    kind, _, rest = name.partition(".")
    known: dict[str, TileKind] = {
        "compute": "compute",
        "comm": "comm",
        "memcpy": "memcpy",
        "idle": "idle",
    }
    return Tile(known[kind], rest, ns)


PINNED = "Memcpy HtoD (Pinned -> Device)"
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
SHAPES = "[[32,32,1,128],[32,8,1536,128],[32,8,1536,128]]"

EAGER = Made(
    tiles={
        "compute.gemm": 1.3,
        "compute.attention": 0.6,
        "compute.norm": 0.15,
        "compute.activation": 0.1,
        "compute.elementwise": 0.4,
        "memcpy.HtoD": 0.35,
        "idle.host:decode": 11.0,
        "idle.host:schedule": 0.3,
        "idle.host:sample": 0.4,
        "idle.launch_call": 3.5,
        "idle.launch_wait": 0.7,
        "idle.sync": 0.02,
    },
    kernels={
        ("gemm", "nvjet_128", "bf16"): (48, 27.0, "132,1,1"),
        ("attention", "flash_fprop", "bf16"): (12, 50.0, "32,32,1"),
        ("norm", "rms_norm", "bf16"): (25, 6.0, "32,1,1"),
        ("activation", "silu_mul", "bf16"): (12, 8.3, "32,1,1"),
        ("elementwise", "add", "bf16"): (200, 2.0, "64,1,1"),
    },
    calls={"launch": 300, "sync": 1, "memcpy": 8},
    sections={
        "engine_step": (0.1, 0.0),
        "schedule": (0.5, 0.1),
        "decode": (16.5, 0.8),
        "sample": (0.9, 0.9),
    },
    ops={
        "aten::mm": (960, 40.0, "[[32,4096],[4096,4096]]"),
        "aten::mul": (2400, 18.0, ""),
        "aten::rms_norm": (500, 45.0, ""),
        "aten::_flash_attention": (240, 100.0, SHAPES),
        "cudaLaunchKernel": (6000, 7.5, ""),
    },
    counters={
        "oncpu_ns": 0.98e9,
        "runq_ns": 0.001e9,
        "process_cpu_ns": 1.3e9,
        "ctx_vol": 5.0,
        "ctx_invol": 4.0,
        "process_threads": 40,
        "affinity_cores": 16,
        "write_bytes": 2e4,
        "write_calls": 50.0,
        "page_faults_major": 0.0,
        "cgroup_throttled_ns": 0.0,
        "cpu_frequency": 2100.0,
        "host_cpu_usage": 10.0,
        "gpu_sm_frequency": 1980.0,
        "gpu_usage": 16.0,
        "gpu_other_processes": 0,
        "gpu_pcie_receive": 300_000.0,
    },
    copies={PINNED: (8, 44.0, 2_000_000)},
)
"""Decode steps of 18.8 ms that wait for the host most of the time."""

GRAPH = EAGER.but(
    tiles={
        "idle.host:decode": 0.05,
        "idle.host:schedule": 0.2,
        "idle.host:sample": 0.05,
        "idle.launch_call": 0.3,
        "idle.launch_wait": 0.1,
    },
    calls={"launch": 10, "graph_launch": 1},
    sections={"decode": (0.4, 0.9), "sample": (2.8, 0.9)},
    ops={"aten::_flash_attention": (240, 100.0, "")},
    requests=None,
    graph_pct=92.0,
)
"""Decode steps of 3.6 ms, replayed from a graph: no shapes, and a GPU that is busy mostly."""


class Edge(NamedTuple):
    """A limit, the check that reads it, and runs short of it and beyond it."""

    limit: str
    check: Check
    short: Made
    beyond: Made
    normal: Made = EAGER
