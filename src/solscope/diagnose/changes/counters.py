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
    """What a sensor measures, as a diagnosis shows it."""

    unit: str
    part: Part
    scale: float = 1.0
    """Readings, or rates per second, are multiplied by it to get the unit."""


class _Shown(NamedTuple):
    unit: str
    scale: float = 1.0


_RATES: dict[str, _Shown] = {
    # A nanosecond per second is 1e-9 of the time, 1e-7 percent: 0.48e9 ns/s in the run queue are
    # shown as 48 % of the time.
    "ns": _Shown("% of time", 1e-7),
    "bytes": _Shown("MB/s", 1e-6),
    "mJ": _Shown("W", 1e-3),
}
"""How the rate of a counter is shown, by the unit of the counter; others are 1/s."""
_READINGS: dict[str, _Shown] = {
    "%": _Shown("% of time"),
    "bytes": _Shown("MB", 1e-6),
    "us": _Shown("µs"),
    "mW": _Shown("W", 1e-3),
    "KB/s": _Shown("MB/s", 1e-3),
}
"""How a gauge is shown, by its unit; others keep it."""


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
    kind = metric_kind(name)
    part: Part = "driver" if kind.driver else "consequence"
    if in_cycles and not grows:
        return Meaning("as recorded", part)
    if not kind.unit:
        return Meaning("1/s" if grows else "as recorded", part)
    if kind.counter:
        shown = _RATES.get(kind.unit, _Shown("1/s"))
    else:
        shown = _READINGS.get(kind.unit, _Shown(kind.unit))
    return Meaning(kind.shown or shown.unit, part, shown.scale)


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
    meaning: Meaning,
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
        unit=meaning.unit,
        part=meaning.part,
        normal=pair[0].overall,
        abnormal=pair[1].overall,
        q=q,
        state="missing" if missing else state_of(test, q, limits.fdr, limits.min_effect),
        test=test,
    )
