"""Observations of a real run, changed by a known amount: what should a diagnosis say of them?

An edit keeps what holds of every recording: tiles of a step add up to it, steps follow each other,
samples move with the steps that they were taken in. It changes nothing else, so that the right
answer is known exactly, which no recording of a fault can offer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from solscope.diagnose.labels import idle_label
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.intervals import Int64s
from solscope.readers.packed import (
    CLOCK_NS,
    Counter,
    HostCalls,
    KernelClass,
    Observations,
    Section,
    Step,
    Tile,
    TileKind,
)
from solscope.resample import Floats

Thread = Literal["running", "waiting", "blocked"]
"""What the main thread does in time that is added: it runs, waits for a core, or neither."""
Key = tuple[TileKind, str]
_replace = msgspec.structs.replace


def drawn(run: Observations, size: int, seed: int) -> Observations:
    """A run of `size` steps, drawn with replacement from the whole steps of the same phase.

    Phases follow each other as they did. Two draws of one run differ by its own noise and by
    nothing else. A slow step is drawn once at most: one accident of a recording must not become a
    pattern of the draw. Sensors keep their samples, spread over the new length.
    """
    draw = np.random.default_rng(seed)
    whole = [row for row, step in enumerate(run.steps) if step.whole and row > 0]
    phases = [run.steps[row].phase for row in whole]
    pools = {phase: [row for row in whole if run.steps[row].phase == phase] for phase in phases}
    slow = {row for pool in pools.values() for row in _slow(run, pool)}
    rows = []
    for n in range(size):
        pool = pools[phases[n % len(whole)]]
        rows.append(int(draw.choice(pool)))
        if rows[-1] in slow:
            pool.remove(rows[-1])
    return _taken(run, rows)


def _slow(run: Observations, pool: list[int]) -> list[int]:
    """The steps that take much longer than the typical one, as a diagnosis defines it."""
    typical = float(np.median([run.steps[row].wall_ns for row in pool]))
    return [row for row in pool if run.steps[row].wall_ns > (1 + THRESHOLDS.slow_step) * typical]


def first_steps(run: Observations, size: int) -> Observations:
    """The head of a run, as a recording that breaks off has it."""
    short = _taken(run, list(range(size)), whole=False)
    text = "truncated: the file breaks off before its end"
    return _replace(short, run=_replace(short.run, warnings=[*short.run.warnings, text]))


def _taken(run: Observations, rows: Sequence[int], *, whole: bool = True) -> Observations:
    def of(values: Sequence[int]) -> list[int]:
        return [values[row] for row in rows]

    steps = [_replace(run.steps[row], number=n) for n, row in enumerate(rows)]
    starts, span = _starts([step.wall_ns for step in steps])
    scale = span / max(1, run.run.span_ns) if whole else 1.0
    ticks = [[round(tick * scale) for tick in clock] for clock in run.clocks]
    return _replace(
        run,
        run=_replace(run.run, span_ns=span),
        steps=[_replace(s, start_ns=start) for s, start in zip(steps, starts, strict=True)],
        tiles=[_replace(tile, ns=of(tile.ns)) for tile in run.tiles],
        kernels=[
            _replace(k, calls=of(k.calls), ns=of(k.ns), exposed_ns=of(k.exposed_ns),
                     bytes=round(k.bytes * len(rows) / len(run.steps)))
            for k in run.kernels
        ],
        host_calls=[_replace(c, calls=of(c.calls), ns=of(c.ns)) for c in run.host_calls],
        sections=[
            _replace(s, calls=of(s.calls), ns=of(s.ns), own_ns=of(s.own_ns), op_ns=of(s.op_ns))
            for s in run.sections
        ],
        stalls=[],
        clocks=ticks,
        counters=[
            _replace(c, values=[v * scale for v in c.values]) if c.grows and whole else c
            for c in run.counters
        ],
    )  # fmt: skip


def _starts(walls: Sequence[int]) -> tuple[list[int], int]:
    edges = np.concatenate([[0], np.cumsum(np.array(walls, dtype=np.int64))])
    return edges[:-1].tolist(), int(edges[-1])


def lengthened(
    run: Observations, more: dict[Key, Int64s], thread: Thread = "running"
) -> Observations:
    """Time added to (or taken from) states of the GPU, step by step, in ns."""
    tile_of = {(tile.kind, tile.name): tile for tile in run.tiles}
    zero = np.zeros(len(run.steps), dtype=np.int64)
    for key in more:
        tile_of.setdefault(key, Tile(*key, ns=zero.tolist()))
    tiles = [
        _replace(tile, ns=np.maximum(0, np.array(tile.ns) + more.get(key, zero)).tolist())
        for key, tile in tile_of.items()
    ]
    walls = [sum(parts) for parts in zip(*(tile.ns for tile in tiles), strict=True)]
    starts, span = _starts(walls)
    old = np.array([*(s.start_ns for s in run.steps), run.run.span_ns], dtype=np.float64)
    new = np.array([*starts, span], dtype=np.float64)
    times = [np.array(clock, dtype=np.float64) * CLOCK_NS for clock in run.clocks]
    moved = [np.interp(time, old, new) for time in times]
    return _replace(
        run,
        run=_replace(run.run, span_ns=span),
        steps=[
            _replace(step, start_ns=start, wall_ns=wall)
            for step, start, wall in zip(run.steps, starts, walls, strict=True)
        ],
        tiles=tiles,
        clocks=[(time / CLOCK_NS).round().astype(np.int64).tolist() for time in moved],
        counters=_counted(run, [m - t for m, t in zip(moved, times, strict=True)], thread),
    )


def _counted(run: Observations, added_ns: list[Floats], thread: Thread) -> list[Counter]:
    """Counters of the scheduler with the added time in them; other threads run on as before."""
    rates = {c.name: _rate(run, c) for c in run.counters if c.grows}
    others = max(0.0, rates.get("process_cpu_ns", 0.0) - rates.get("oncpu_ns", 0.0))
    grows = {
        "oncpu_ns": 1.0 if thread == "running" else 0.0,
        "runq_ns": 1.0 if thread == "waiting" else 0.0,
        "process_cpu_ns": others + (1.0 if thread == "running" else 0.0),
    }
    return [
        _with_added(c, grows[c.name] * added_ns[c.clock]) if c.n and c.name in grows else c
        for c in run.counters
    ]


def _with_added(counter: Counter, more: Floats) -> Counter:
    values = np.array(counter.readings, dtype=np.float64) + more - more[0]
    return _replace(counter, values=values.tolist())


def _rate(run: Observations, counter: Counter) -> float:
    """Growth per unit of time."""
    clock = run.clocks[counter.clock]
    passed = (clock[-1] - clock[0]) * CLOCK_NS if len(clock) > 1 else 0
    return (counter.readings[-1] - counter.readings[0]) / passed if passed else 0.0


def slower_section(
    run: Observations, name: str, more_ns: Int64s, thread: Thread = "blocked"
) -> Observations:
    """An annotated section takes longer outside operators, and the GPU waits for it."""
    longer = lengthened(run, {("idle", idle_label(name)): more_ns}, thread)

    def grown(section: Section) -> Section:
        if section.name != name:
            return section
        ns, own = (
            (np.array(v, dtype=np.int64) + more_ns).tolist() for v in (section.ns, section.own_ns)
        )
        return _replace(section, ns=ns, own_ns=own)

    sections = {section.name for section in run.sections}
    size = len(run.steps)
    fresh = [] if name in sections else [Section(name, [0] * size, *([0] * size for _ in range(3)))]
    return _replace(longer, sections=[grown(s) for s in (*longer.sections, *fresh)])


def slower_host(run: Observations, factor: float, thread: Thread) -> Observations:
    """All host code takes longer in proportion: sections, calls and operators."""
    more: dict[Key, Int64s] = {
        (tile.kind, tile.name): (np.array(tile.ns) * (factor - 1)).astype(np.int64)
        for tile in run.tiles
        if tile.kind == "idle" and tile.name.startswith(("host", "launch_call", "between"))
    }
    longer = lengthened(run, more, thread)
    return _replace(
        longer,
        sections=[
            _replace(s, ns=_times(s.ns, factor), own_ns=_times(s.own_ns, factor),
                     op_ns=_times(s.op_ns, factor))
            for s in run.sections
        ],
        host_ops=[
            _replace(
                op, mean_ns=round(op.mean_ns * factor), p99_ns=round(op.p99_ns * factor),
                # A thread that is stopped now and then loses little in the typical call.
                p50_ns=round(op.p50_ns * (factor if thread == "running" else 1.0)),
            )
            for op in run.host_ops
        ],
    )  # fmt: skip


def _times(values: Sequence[int], factor: float) -> list[int]:
    return [round(value * factor) for value in values]


def slower_kernels(
    run: Observations,
    factor: float,
    which: Callable[[KernelClass], bool],
    *,
    hidden: bool = False,
) -> Observations:
    """Kernels take longer per call; `hidden` behind the host, or at the expense of the step."""
    more: dict[Key, Int64s] = {}
    kernels = []
    size = len(run.steps)
    for kernel in run.kernels:
        if kernel.category == "memcpy" or not which(kernel):
            kernels.append(kernel)
            continue
        key: Key = ("comm" if kernel.category == "comm" else "compute", kernel.category)
        added = (np.array(kernel.exposed_ns) * (factor - 1)).astype(np.int64)
        more[key] = more.get(key, np.zeros(size, np.int64)) + added
        kernels.append(
            _replace(
                kernel,
                ns=_times(kernel.ns, factor),
                exposed_ns=(np.array(kernel.exposed_ns) + added).tolist(),
                p50_ns=round(kernel.p50_ns * factor),
            )
        )
    if hidden:
        more = {**more, **_less_idle(run, sum(more.values(), np.zeros(size, np.int64)))}
    return _replace(lengthened(run, more), kernels=kernels)


def _less_idle(run: Observations, ns: Int64s) -> dict[Key, Int64s]:
    """The same time taken out of waiting for the host, in proportion."""
    idle = [t for t in run.tiles if t.kind == "idle" and t.name.startswith(("host", "launch_call"))]
    total = np.maximum(1, np.sum([tile.ns for tile in idle], axis=0))
    return {
        (tile.kind, tile.name): -(np.array(tile.ns) * (ns / total)).astype(np.int64)
        for tile in idle
    }


def renamed_kernels(
    run: Observations, which: Callable[[KernelClass], bool], name: str, dtype: str | None
) -> Observations:
    """Kernels of another name (and type) do the work."""
    return _replace(
        run,
        kernels=[
            _replace(k, name=f"{name} {k.name}", dtype=dtype) if which(k) else k
            for k in run.kernels
        ],
    )


def more_work(run: Observations, factor: float) -> Observations:
    """More layers: every kernel, launch and operator of a step occurs more often."""
    more: dict[Key, Int64s] = {
        (tile.kind, tile.name): (np.array(tile.ns) * (factor - 1)).astype(np.int64)
        for tile in run.tiles
    }
    longer = lengthened(run, more)
    return _replace(
        longer,
        steps=[_replace(s, activities=round(s.activities * factor)) for s in longer.steps],
        kernels=[
            _replace(k, calls=_times(k.calls, factor), ns=_times(k.ns, factor),
                     exposed_ns=_times(k.exposed_ns, factor), bytes=round(k.bytes * factor))
            for k in run.kernels
        ],
        host_calls=[
            _replace(c, calls=_times(c.calls, factor), ns=_times(c.ns, factor))
            for c in run.host_calls
        ],
        sections=[
            _replace(s, ns=_times(s.ns, factor), own_ns=_times(s.own_ns, factor),
                     op_ns=_times(s.op_ns, factor))
            for s in run.sections
        ],
        host_ops=[_replace(op, calls=round(op.calls * factor)) for op in run.host_ops],
    )  # fmt: skip


def more_calls(run: Observations, kind: str, calls: Int64s, each_ns: int) -> Observations:
    """More runtime calls of a kind per step, in each of which the GPU waits."""
    family = "sync" if kind == "sync" else "alloc"
    longer = lengthened(run, {("idle", family): calls * each_ns}, "running")
    size = len(run.steps)
    of_kind = [c for c in run.host_calls if c.kind == kind] or [
        HostCalls(kind, [0] * size, [0] * size)
    ]
    grown = _replace(
        of_kind[0],
        calls=(np.array(of_kind[0].calls) + calls).tolist(),
        ns=(np.array(of_kind[0].ns) + calls * each_ns).tolist(),
    )
    return _replace(longer, host_calls=[*(c for c in run.host_calls if c.kind != kind), grown])


def with_readings(run: Observations, name: str, change: Callable[[float], float]) -> Observations:
    """A sensor that is read out changes; one that was not sampled stays so."""
    return _replace(
        run,
        counters=[
            _replace(c, values=[change(v) for v in c.values]) if c.name == name else c
            for c in run.counters
        ],
    )


def few_samples(run: Observations, size: int) -> Observations:
    """All sensors with their first samples only."""
    return _replace(
        run,
        clocks=[clock[:size] for clock in run.clocks],
        counters=[_replace(c, values=c.values[:size], n=min(c.n, size)) for c in run.counters],
    )


def larger_batch(run: Observations, factor: float) -> Observations:
    """More requests and tokens per step, with kernels that take longer for them."""

    def grown(step: Step) -> Step:
        sizes = [None if n is None else round(n * factor) for n in (step.requests, step.tokens)]
        return _replace(step, requests=sizes[0], tokens=sizes[1])

    slower = slower_kernels(run, factor, lambda _kernel: True)
    return _replace(slower, steps=[grown(step) for step in slower.steps])
