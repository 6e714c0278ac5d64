"""Counters of two runs: what each means, whether it can drive a change, and how it changed.

A *driver* can make a run slow: a clock, a queue, a quota, another process. A *consequence* only
shows that it is slow: utilization, power, temperature. Consequences never name a cause.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from solscope.diagnose.statistics.two_samples import (
    Comparison,
    benjamini_hochberg,
    compare,
    state_of,
)
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.readers.metric_kinds import metric_kind
from solscope.readers.packed import CLOCK_NS, Counter, Observations
from solscope.resample import Floats, TwoSamples

Part = Literal["driver", "consequence"]


class Meaning(NamedTuple):
    """What a sensor measures."""

    unit: str
    part: Part
    scale: float = 1.0
    """Readings, or rates per second, are multiplied by it to get the unit."""


MEANINGS: dict[str, Meaning] = {
    "oncpu_ns": Meaning("% of time", "consequence", 1e-7),
    "runq_ns": Meaning("% of time", "driver", 1e-7),
    "ctx_vol": Meaning("1/s", "consequence"),
    "ctx_invol": Meaning("1/s", "driver"),
    "process_threads": Meaning("threads", "driver"),
    "affinity_cores": Meaning("cores", "driver"),
    "page_faults_minor": Meaning("1/s", "consequence"),
    "page_faults_major": Meaning("1/s", "driver"),
    "process_mem_used": Meaning("MB", "consequence", 1e-6),
    "process_cpu_ns": Meaning("% of a core", "consequence", 1e-7),
    "process_cpu_usage": Meaning("% of a core", "consequence"),
    "read_bytes": Meaning("MB/s", "driver", 1e-6),
    "write_bytes": Meaning("MB/s", "driver", 1e-6),
    "read_calls": Meaning("1/s", "driver"),
    "write_calls": Meaning("1/s", "driver"),
    "cgroup_periods": Meaning("1/s", "consequence"),
    "cgroup_throttled_periods": Meaning("1/s", "driver"),
    "cgroup_throttled_ns": Meaning("% of time", "driver", 1e-7),
    "cgroup_quota_cores": Meaning("cores", "driver"),
    "host_cpu_usage": Meaning("% of all cores", "driver"),
    "host_cpu_steal": Meaning("% of all cores", "driver"),
    "host_cpu_iowait": Meaning("% of all cores", "driver"),
    "host_procs_running": Meaning("threads", "driver"),
    "host_mem_available": Meaning("MB", "consequence", 1e-6),
    "cpu_frequency": Meaning("MHz", "driver"),
    "psi_cpu_some_ns": Meaning("% of time", "driver", 1e-7),
    "psi_cpu_full_ns": Meaning("% of time", "driver", 1e-7),
    "psi_io_some_ns": Meaning("% of time", "driver", 1e-7),
    "psi_io_full_ns": Meaning("% of time", "driver", 1e-7),
    "psi_memory_some_ns": Meaning("% of time", "driver", 1e-7),
    "psi_memory_full_ns": Meaning("% of time", "driver", 1e-7),
    "spin_wall_us": Meaning("µs", "driver"),
    "spin_cpu_us": Meaning("µs", "driver"),
    "gc_ns": Meaning("% of time", "driver", 1e-7),
    "gc_collections": Meaning("1/s", "driver"),
    "capture_cpu_ns": Meaning("% of a core", "consequence", 1e-7),
    "gpu_usage": Meaning("% of time", "consequence"),
    "gpu_mem_util": Meaning("% of time", "consequence"),
    "gpu_sm_frequency": Meaning("MHz", "driver"),
    "gpu_mem_frequency": Meaning("MHz", "driver"),
    "gpu_mem_used": Meaning("MB", "consequence", 1e-6),
    "gpu_power_mw": Meaning("W", "consequence", 1e-3),
    "gpu_energy_mj": Meaning("W", "consequence", 1e-3),
    "gpu_temperature": Meaning("°C", "consequence"),
    "gpu_throttle_reasons": Meaning("bits", "driver"),
    "gpu_processes": Meaning("processes", "driver"),
    "gpu_other_processes": Meaning("processes", "driver"),
    "gpu_other_mem_used": Meaning("MB", "driver", 1e-6),
    "gpu_process_usage": Meaning("% of time", "consequence"),
    "gpu_other_usage": Meaning("% of time", "driver"),
    "gpu_pcie_transmit": Meaning("MB/s", "driver", 1e-3),
    "gpu_pcie_receive": Meaning("MB/s", "driver", 1e-3),
}
"""Sensors that are known; an unknown one is shown as it is, as a consequence."""


class CounterChange(msgspec.Struct, frozen=True):
    """One sensor in both runs; null for a side without it."""

    name: str
    device: int | None
    unit: str
    part: Part
    normal: float | None
    """Rate over all samples for a count that grows, else the median."""
    abnormal: float | None
    q: float | None
    """Mann-Whitney over samples, corrected for all counters tested; null when not tested."""
    state: Literal["changed", "unchanged", "unclear", "not_tested", "missing"]
    test: Comparison


class Series(NamedTuple):
    """One sensor over the time of one run."""

    values: Floats
    """Readings, or rates between samples, in the unit of the sensor's meaning."""
    times_ms: Floats
    """When they were read, or when the time of the rate ends, from the start of the first step."""
    overall: float | None
    samples: int


def compare_counters(
    normal: Observations, abnormal: Observations, limits: Thresholds = THRESHOLDS
) -> list[CounterChange]:
    """All sensors of both runs, tested."""
    sides = [by_key(run) for run in (normal, abnormal)]
    keys = sorted(
        {*sides[0], *sides[1]}, key=lambda key: (key[0], -1 if key[1] is None else key[1])
    )
    pairs = [
        [series(run, side.get(key)) for run, side in zip((normal, abnormal), sides, strict=True)]
        for key in keys
    ]
    tests = [
        compare(TwoSamples(a.values, b.values), limits.min_samples_tested, limits.equivalence)
        for a, b in pairs
    ]
    q_values = benjamini_hochberg([test.p_mann_whitney for test in tests])
    in_cycles = normal.anchor is not None
    return [
        _change(
            meaning(key[0], metric_kind(key[0]).counter, in_cycles=in_cycles),
            key,
            pair,
            test,
            q,
            limits,
        )
        for key, pair, test, q in zip(keys, pairs, tests, q_values, strict=True)
    ]


def meaning(name: str, grows: bool, *, in_cycles: bool = False) -> Meaning:
    """What a sensor measures, also when it is not known.

    Readings of a run known by cycles have the unit that their maker chose.
    """
    known = MEANINGS.get(name, Meaning("1/s" if grows else "as recorded", "consequence"))
    return Meaning("as recorded", known.part) if in_cycles and not grows else known


def by_key(run: Observations) -> dict[tuple[str, int | None], Counter]:
    """The sensors of a run, by name and device."""
    return {(counter.name, counter.device): counter for counter in run.counters}


def series(run: Observations, counter: Counter | None) -> Series:
    """The samples of a sensor in the unit of its meaning; empty for one that was not sampled."""
    none = np.empty(0)
    if counter is None:
        return Series(none, none, None, 0)
    in_cycles = run.anchor is not None
    scale = meaning(counter.name, counter.grows, in_cycles=in_cycles).scale
    values = np.array(counter.readings, dtype=np.float64)
    times = np.array(run.clocks[counter.clock], dtype=np.float64) * CLOCK_NS / 1e6
    if not counter.grows:
        return Series(values * scale, times, float(np.median(values)) * scale, counter.n)
    if values.size < 2 or times[-1] <= times[0]:
        return Series(none, none, None, counter.n)
    passed = np.diff(times) / 1e3
    later = passed > 0
    rates = np.diff(values)[later] / passed[later] * scale
    overall = float(values[-1] - values[0]) / float(times[-1] - times[0]) * 1e3 * scale
    return Series(rates, times[1:][later], overall, counter.n)


def _change(
    known: Meaning,
    key: tuple[str, int | None],
    pair: list[Series],
    test: Comparison,
    q: float | None,
    limits: Thresholds,
) -> CounterChange:
    name, device = key
    missing = any(series.samples == 0 for series in pair)
    return CounterChange(
        name=name,
        device=device,
        unit=known.unit,
        part=known.part,
        normal=pair[0].overall,
        abnormal=pair[1].overall,
        q=q,
        state="missing" if missing else state_of(test, q, limits.fdr, limits.min_effect),
        test=test,
    )
