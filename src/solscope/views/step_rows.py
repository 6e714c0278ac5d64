"""Steps one by one: how long each takes, and what is unusual about it.

A step lasts from its first GPU activity to the first of the next, so that the time between steps
counts; the last one ends with its last activity. Its time is the sum of

    time of activities by category - what ran at the same time + idle time by cause

exactly, on one device. What is unusual about a step is where this sum differs most from the median
of the steps of the same phase. A step is *slow* when it takes longer than the median by more than
`SLOW` of it and by more than `SLOW_NOISE` times the usual spread.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.usual_steps import usual_steps
from solscope.errors import InputError, UsageError
from solscope.views.device_time import DeviceTime, device_times
from solscope.views.idle import CAUSES

SLOW = 0.1
"""Part of the median by which a slow step is longer."""
SLOW_NOISE = 5.0
"""Median absolute deviations by which a slow step is longer."""
FEW_STEPS = 3
"""With fewer steps of a phase there is no usual one."""
EXPLAIN = 0.05
"""Part of the median by which a step is longer whose differences are listed."""
PARTS = 3
"""Differences to name per step."""
PART_FROM = 0.1
"""A difference below this part of the step's own is not named."""
OVERLAP = "overlap"
"""Time in which two activities ran at once; it counts against the sum."""


class Unusual(msgspec.Struct, frozen=True):
    """One part of a step that differs from the usual step of its phase."""

    part: str
    """A category, `overlap`, or `idle: CAUSE`."""
    excess_ms: float
    """Longer than the median; negative for shorter."""


class StepRow(msgspec.Struct, frozen=True):
    """One step of one device."""

    step: int
    """Number that `--step` takes."""
    name: str
    phase: str | None
    start_ms: float
    """From the first GPU activity of the profile."""
    wall_ms: float
    busy_ms: float
    kernels: int
    requests: int | None
    tokens: int | None
    typical_ms: float | None
    """Median step time of the phase, outliers included; null with too few steps."""
    excess_ms: float | None
    slow: bool
    unusual: list[Unusual]
    """Largest differences from the medians of the phase; empty for a step of about their length."""
    kernels_more: int | None
    """Kernels more than the median of the phase; null with too few steps."""


class StepTable(msgspec.Struct, frozen=True):
    """Steps of a profile, those that lose most time first."""

    profile: str
    found_by: str
    count: int
    """Whole steps."""
    slow: int
    slow_pct: float
    """Time of slow steps beyond their phase's median, of the time of all steps."""
    steps: list[StepRow]


def step_rows(attributed: Attributed) -> StepTable:
    """All whole steps of the first process, the one with the largest excess first."""
    steps, time = _steps(attributed)
    parts = _parts(steps, time)
    wall = steps["until"].to_numpy() - steps["start_ns"].to_numpy()
    phases = steps["phase"].cast(pl.String).to_list()
    usual = _medians(phases, wall, parts, _measured(attributed, steps))
    origin = int(time.busy.start[0])
    rows = [
        _row(origin, row, float(wall[index]), {k: float(v[index]) for k, v in parts.items()}, usual)
        for index, row in enumerate(steps.iter_rows(named=True))
    ]
    slow = [row for row in rows if row.slow]
    return StepTable(
        profile=attributed.profile.path,
        found_by=str(steps["found_by"][0]),
        count=len(rows),
        slow=len(slow),
        slow_pct=100e6 * sum(row.excess_ms or 0.0 for row in slow) / max(1.0, float(wall.sum())),
        steps=sorted(rows, key=_order),
    )


def slowest_step(attributed: Attributed) -> int:
    """The step that exceeds the median of its phase by most."""
    return step_rows(attributed).steps[0].step


def only_step(attributed: Attributed, number: int) -> Attributed:
    """The same profile with the activities of one step; its events stay whole."""
    _check(attributed, number)
    return replace(
        attributed,
        activities=attributed.activities.filter(pl.col("step") == number),
        steps=attributed.steps.filter(pl.col("step") == number),
    )


def cut_out_step(attributed: Attributed, number: int) -> Attributed:
    """The same, and of the events only those of its time: from its first launch to the next step.

    Columns that point to rows of the event table follow.
    """
    picked = only_step(attributed, number)
    events = attributed.profile.events
    launches = take(events["start_ns"], picked.activities["launch_row"])
    first = pl.concat([launches, picked.activities["start_ns"]]).min()
    last = _until(attributed, number)
    of_step = set(picked.activities["row"].to_list())
    is_gpu = events["device"].is_not_null() & (events["kind"] != "gpu_annotation")
    stop = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    shown = (
        events.select((pl.col("start_ns") <= last) & (stop >= first)).to_series().fill_null(False)
    )
    keep = pl.Series(
        [
            row in of_step if gpu else bool(inside)
            for row, (gpu, inside) in enumerate(zip(is_gpu, shown, strict=True))
        ],
        dtype=pl.Boolean,
    )
    rows = keep.arg_true()
    moved = dict(zip(rows.to_list(), range(rows.len()), strict=True))
    pointers = [c for c in ("row", "launch_row", "op_row", "owner_row") if c in picked.activities]
    activities = picked.activities.with_columns(
        pl.col(c).replace_strict(moved, default=None, return_dtype=picked.activities[c].dtype)
        for c in pointers
    )
    profile = replace(attributed.profile, events=events.filter(keep))
    return replace(picked, profile=profile, activities=activities)


def _until(attributed: Attributed, number: int) -> int:
    """Where the next step of the same process starts; else where this one ends."""
    (own,) = attributed.steps.filter(pl.col("step") == number).iter_rows(named=True)
    later = attributed.steps.filter(
        (pl.col("process") == own["process"]) & (pl.col("start_ns") > own["start_ns"])
    )["start_ns"].min()
    return int(own["end_ns"]) if later is None else max(int(str(later)), int(own["end_ns"]))


def _check(attributed: Attributed, number: int) -> None:
    path = attributed.profile.path
    if attributed.profile.is_aggregate or attributed.activities.is_empty():
        raise InputError(f"{path}: no single activities were recorded, so there are no steps")
    steps = attributed.steps["step"].to_list()
    if number not in steps:
        raise UsageError(
            f"{path}: no step {number}; there are {len(steps)}, from {steps[0]} to {steps[-1]}"
        )


def _steps(attributed: Attributed) -> tuple[pl.DataFrame, DeviceTime]:
    """Whole steps of the first process with `until`, and the device that they run on."""
    path = attributed.profile.path
    timed = attributed.steps.filter(pl.col("start_ns").is_not_null() & (pl.col("process") == 0))
    steps = timed.sort("start_ns").with_columns(
        pl.col("start_ns").shift(-1).fill_null(pl.col("end_ns")).alias("until")
    )
    whole = steps.filter(~pl.col("cut") & (pl.col("found_by") != "whole_profile"))
    if whole.is_empty() or attributed.profile.is_aggregate:
        raise InputError(f"{path}: no steps were found; single steps need a trace with several")
    numbers = whole["step"].to_list()
    times = device_times(attributed)
    held = [int(time.rows["step"].is_in(numbers).sum()) for time in times]
    return whole, times[held.index(max(held))]


def _parts(steps: pl.DataFrame, time: DeviceTime) -> dict[str, np.ndarray]:
    """Nanoseconds of every part by step; together they are the wall time. Plus `kernels`."""
    start, until = steps["start_ns"].to_numpy(), steps["until"].to_numpy()
    parts: dict[str, np.ndarray] = {}

    def step_of(when: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        index = np.searchsorted(start, when, side="right") - 1
        inside = (index >= 0) & (when < until[np.maximum(index, 0)])
        return index[inside], inside

    def add(name: str, index: np.ndarray, values: np.ndarray) -> None:
        total = parts.setdefault(name, np.zeros(start.size, dtype=np.float64))
        np.add.at(total, index, values)

    rows = time.rows.sort("start_ns", maintain_order=True)
    index, inside = step_of(rows["start_ns"].to_numpy())
    chosen = rows.filter(pl.Series(inside))
    durations = chosen["dur_ns"].to_numpy()
    categories = chosen["category"].cast(pl.String).to_numpy()
    for category in sorted(set(categories.tolist())):
        mine = categories == category
        add(category, index[mine], durations[mine])
    add("kernels", index, (chosen["kind"] == "kernel").to_numpy().astype(np.float64))
    for cause in CAUSES:
        where, within = step_of(time.gaps["start_ns"].to_numpy())
        add(f"idle: {cause}", where, time.gaps[cause].to_numpy()[within])
    explained = np.sum([v for k, v in parts.items() if k != "kernels"], axis=0)
    parts[OVERLAP] = (until - start) - explained
    return parts


Medians = dict["str | None", "tuple[float, float, dict[str, float]] | None"]


def _measured(attributed: Attributed, steps: pl.DataFrame) -> np.ndarray:
    """Which steps have a step time: all but the last, which no step follows."""
    last: set[int] = set()
    for usual in usual_steps(attributed):
        last.update(usual.others.filter(pl.col("reason") == "last")["step"].to_list())
    return np.array([number not in last for number in steps["step"].to_list()])


def _medians(
    phases: list[str | None], wall: np.ndarray, parts: dict[str, np.ndarray], measured: np.ndarray
) -> Medians:
    """By phase: median and spread of the step time, and the median of every part."""
    by_phase: Medians = {}
    for phase in dict.fromkeys(phases):
        mine = np.array([p == phase for p in phases]) & measured
        if mine.sum() < FEW_STEPS:
            by_phase[phase] = None
            continue
        typical = float(np.median(wall[mine]))
        spread = float(np.median(np.abs(wall[mine] - typical)))
        medians = {name: float(np.median(values[mine])) for name, values in parts.items()}
        by_phase[phase] = (typical, spread, medians)
    return by_phase


def _row(
    origin: int, row: dict[str, object], wall: float, parts: dict[str, float], usual: Medians
) -> StepRow:
    phase = None if row["phase"] is None else str(row["phase"])
    median = usual[phase]
    idle = sum(value for name, value in parts.items() if name.startswith("idle: "))
    excess = None if median is None else wall - median[0]
    slow = median is not None and wall - median[0] > max(SLOW * median[0], SLOW_NOISE * median[1])
    start, requests, tokens, number = (
        row[name] for name in ("start_ns", "requests", "tokens", "step")
    )
    assert isinstance(start, int)
    assert isinstance(number, int)
    assert requests is None or isinstance(requests, int)
    assert tokens is None or isinstance(tokens, int)
    kernels = int(parts["kernels"])
    return StepRow(
        step=number,
        name=str(row["name"]),
        phase=phase,
        start_ms=(start - origin) / 1e6,
        wall_ms=wall / 1e6,
        busy_ms=(wall - idle) / 1e6,
        kernels=kernels,
        requests=requests,
        tokens=tokens,
        typical_ms=None if median is None else median[0] / 1e6,
        excess_ms=None if excess is None else excess / 1e6,
        slow=slow,
        unusual=_unusual(parts, median[2], wall - median[0])
        if median is not None and wall - median[0] > EXPLAIN * median[0]
        else [],
        kernels_more=None if median is None else kernels - round(median[2]["kernels"]),
    )


def _unusual(parts: dict[str, float], medians: dict[str, float], excess: float) -> list[Unusual]:
    """The parts that differ most, largest first."""
    differences = {
        name: value - medians[name] for name, value in parts.items() if name != "kernels"
    }
    large = {n: d for n, d in differences.items() if abs(d) >= PART_FROM * abs(excess)}
    order = sorted(large, key=lambda name: -abs(large[name]))[:PARTS]
    return [Unusual(name, large[name] / 1e6) for name in order]


def _order(row: StepRow) -> tuple[bool, float, int]:
    """Largest excess first; steps that cannot be compared last, the longest of them first."""
    unknown = row.excess_ms is None
    return unknown, -(row.wall_ms if row.excess_ms is None else row.excess_ms), row.step
