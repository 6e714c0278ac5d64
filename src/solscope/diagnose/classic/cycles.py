"""The steps of a run as cycles: functions, their time and the counters read while they ran.

This is the table that the classic report is made from. A behavior CSV has it already; from
`Observations` it is made here: a cycle is a whole step, its duration is the step's wall time, and
functions are the kernels and copies of the GPU, the runtime calls and annotated sections of the
host, and the states `oncpu` and `runq` where the scheduler's counts were sampled.

A counter belongs to a function by the resource that the function uses (`METRICS_OF`). Its reading
in a cycle is the mean of the samples that fall into the cycle, or with fewer than three of them
the linear interpolation at the middle of the cycle; a cycle without a sample has no reading. A
count that only grows is read as its rate per second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.events import CYCLE_SCHEMA, conform
from solscope.intervals import Int64s
from solscope.readers.packed import CLOCK_NS, Counter, KernelClass, Observations

Floats = npt.NDArray[np.float64]

METRICS_OF = {
    "gpu_compute": r"gpu_(?!pcie|link|nvlink)|process_gpu",
    "gpu_comm": r"gpu_|process_gpu|net_",
    "gpu_memcpy_h2d": r"gpu_pcie",
    "gpu_memcpy_d2h": r"gpu_pcie",
    "gpu_memcpy_d2d": r"gpu_(link|nvlink)|net_",
    "oncpu": r"(?!gpu_|process_gpu)",
    "runq": r"(?!gpu_|process_gpu).*(cpu|runq|ctx|psi|throttl)",
    "host_call": r"(?!gpu_|process_gpu).*(cpu|runq|ctx|psi|throttl)",
    "section": r"(?!gpu_|process_gpu)",
}
"""Which counters belong to a function, by its resource: a pattern that the name starts with."""
MOST_SAMPLES_TO_INTERPOLATE = 2
_STATES = {"oncpu": "oncpu_ns", "runq": "runq_ns"}
"""Functions whose time is a count of the scheduler, and the counter that has it."""


class _Cycles(NamedTuple):
    """Whole steps: their places in the lists of `Observations`, and when they ran."""

    rows: Int64s
    number: Int64s
    start: Int64s
    wall: Int64s


@dataclass(frozen=True)
class _Function:
    name: str
    resource: str
    device: int | None
    ns: Floats
    """Time by cycle; nan where it did not run."""
    calls: Int64s


@dataclass(frozen=True)
class _Reading:
    metric: str
    device: int | None
    mu: Floats
    """By cycle; nan without a sample."""
    estimated: npt.NDArray[np.bool_]

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self.mu)


def cycles_of(observed: Observations) -> pl.DataFrame:
    """The cycle table of a run; empty when it has no whole step."""
    cycles = _whole(observed)
    sampled = [_read(observed, counter, cycles) for counter in observed.counters if counter.n]
    functions = list(_functions(observed, cycles))
    parts = [
        reading
        for number, function in enumerate(functions)
        for reading in _parts(number, function, sampled)
    ]
    if not parts:
        return CYCLE_SCHEMA.to_frame()
    cycle, spent, calls, mu, few = (
        np.concatenate([getattr(reading, field) for reading in parts])
        for field in ("at", "ns", "calls", "mu", "estimated")
    )
    sizes = [reading.at.size for reading in parts]
    of = np.repeat([reading.function for reading in parts], sizes)
    metric = np.repeat([reading.metric for reading in parts], sizes)
    table = pl.DataFrame(
        {
            "cycle": cycles.number[cycle],
            "anchor_ns": cycles.wall[cycle],
            "start_ns": cycles.start[cycle] + (observed.run.unix_ns or 0),
            "name": pl.Series([f.name for f in functions])[of],
            "resource": pl.Series([f.resource for f in functions])[of],
            "device": pl.Series([f.device for f in functions], dtype=pl.Int32)[of],
            "dur_ns": np.rint(spent).astype(np.int64),
            "calls": calls,
            "beta_pct": 100.0 * spent / cycles.wall[cycle],
            # Number -1, for no metric, is the last of the list.
            "metric": pl.Series([*(r.metric for r in sampled), None], dtype=pl.String)[metric],
            "mu": pl.Series(mu).fill_nan(None),
            "estimated": pl.Series([None, "**"])[few.astype(np.int64)],
        }
    )
    anchor = pl.lit(f"step ({observed.run.found_by or 'whole profile'})").alias("anchor")
    return conform(table.with_columns(anchor), CYCLE_SCHEMA)


def _whole(observed: Observations) -> _Cycles:
    rows = [row for row, step in enumerate(observed.steps) if step.whole and step.wall_ns > 0]
    steps = [observed.steps[row] for row in rows]
    return _Cycles(
        np.array(rows, dtype=np.int64),
        np.array([step.number for step in steps], dtype=np.int64),
        np.array([step.start_ns for step in steps], dtype=np.int64),
        np.array([step.wall_ns for step in steps], dtype=np.int64),
    )


class _Part(NamedTuple):
    """Rows of one function and one metric; -1 means no metric."""

    function: int
    metric: int
    at: Int64s
    """Cycles."""
    ns: Floats
    calls: Int64s
    mu: Floats
    estimated: npt.NDArray[np.bool_]


def _parts(number: int, function: _Function, sampled: list[_Reading]) -> Iterator[_Part]:
    """A part per counter that was read; cycles without any reading are one without a metric."""
    pattern = re.compile(METRICS_OF[function.resource])
    ran = np.isfinite(function.ns)
    unread = ran.copy()
    for metric, reading in enumerate(sampled):
        if pattern.match(reading.metric):
            unread &= ~reading.known
            cycle = np.flatnonzero(ran & reading.known)
            values = (
                function.ns[cycle],
                function.calls[cycle],
                reading.mu[cycle],
                reading.estimated[cycle],
            )
            yield _Part(number, metric, cycle, *values)
    cycle = np.flatnonzero(unread)
    nothing = np.full(cycle.size, np.nan), np.zeros(cycle.size, dtype=bool)
    yield _Part(number, -1, cycle, function.ns[cycle], function.calls[cycle], *nothing)


def _functions(observed: Observations, cycles: _Cycles) -> Iterator[_Function]:
    def made(
        name: str, resource: str, device: int | None, calls: list[int], ns: list[int]
    ) -> _Function:
        count = np.array(calls, dtype=np.int64)[cycles.rows]
        time = np.where(count > 0, np.array(ns, dtype=np.float64)[cycles.rows], np.nan)
        return _Function(name, resource, device, time, count)

    for state, counter in _STATES.items():
        for sampled in (c for c in observed.counters if c.name == counter and c.n):
            spent = _spent(observed, sampled, cycles)
            yield _Function(state, state, None, spent, np.ones_like(cycles.rows))
    for kernel in observed.kernels:
        yield made(
            function_name(kernel),
            _resource(kernel.category, kernel.name),
            0,
            kernel.calls,
            kernel.ns,
        )
    for call in observed.host_calls:
        yield made(call.kind, "host_call", None, call.calls, call.ns)
    for section in observed.sections:
        yield made(section.name, "section", None, section.calls, section.ns)


def function_name(kernel: KernelClass) -> str:
    """Name of a kernel as a function of the table."""
    return f"{kernel.name} [{kernel.dtype}]" if kernel.dtype else kernel.name


def _resource(category: str, name: str) -> str:
    if category == "comm":
        return "gpu_comm"
    if category == "memcpy":
        kind = re.search(r"(HtoD|DtoH|DtoD)", name)
        return f"gpu_memcpy_{kind[1].lower().replace('to', '2')}" if kind else "gpu_memcpy_d2d"
    return "gpu_compute"


def _samples(observed: Observations, counter: Counter) -> tuple[Floats, Floats]:
    """Times (ns from the first step) and values of a counter."""
    times = np.array(observed.clocks[counter.clock], dtype=np.float64) * CLOCK_NS
    return times, np.array(counter.readings, dtype=np.float64)


def _spent(observed: Observations, counter: Counter, cycles: _Cycles) -> Floats:
    """How much a growing count grew in each cycle; nan in a cycle without a sample."""
    times, values = _samples(observed, counter)
    end = cycles.start + cycles.wall
    grown = np.interp(end, times, values) - np.interp(cycles.start, times, values)
    return np.where(_inside(times, cycles) > 0, grown, np.nan)


def _inside(times: Floats, cycles: _Cycles) -> Int64s:
    """Samples that fall into each cycle."""
    first = np.searchsorted(times, cycles.start, side="left")
    return np.searchsorted(times, cycles.start + cycles.wall, side="left") - first


def _read(observed: Observations, counter: Counter, cycles: _Cycles) -> _Reading:
    times, values = _samples(observed, counter)
    count = _inside(times, cycles)
    few = count <= MOST_SAMPLES_TO_INTERPOLATE
    if counter.grows:
        rate = _spent(observed, counter, cycles) * 1e9 / cycles.wall
        return _Reading(counter.name, counter.device, rate, few)
    total = np.concatenate([[0.0], np.cumsum(values)])
    first = np.searchsorted(times, cycles.start, side="left")
    mean = (total[first + count] - total[first]) / np.maximum(count, 1)
    middle = np.interp(cycles.start + cycles.wall / 2, times, values)
    mu = np.where(count == 0, np.nan, np.where(few, middle, mean))
    return _Reading(counter.name, counter.device, mu, few)
