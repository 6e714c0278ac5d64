"""What a usual step is made of: the facts that a verdict is built from.

Which steps are usual, and how long a step is, `attribution/usual_steps.py` defines. Of all phases,
the one that takes most time is meant unless another is asked for. Times are means over the usual
steps and over devices.

A profile without steps is one step, from its first activity to its last, without stray ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import series, take, texts_of
from solscope.attribution import Attributed
from solscope.attribution.profiler_events import profiler_time
from solscope.attribution.usual_steps import StepBasis, UsualSteps, recording_basis, usual_steps
from solscope.intervals import Int64s, Intervals, find_stray, overlap, union
from solscope.patterns import lazy_pattern
from solscope.views.device_time import DeviceTime, bounds
from solscope.views.idle import CAUSES
from solscope.views.warnings import STRAY_ONE_IN

LAUNCH_GAP_NS = 1_000_000
"""No launch takes this long, even with a profiler; a longer gap holds other code."""
COPIES = {
    "HtoD": "copies from host to GPU",
    "DtoH": "copies from GPU to host",
    "DtoD": "copies within the GPU",
    "PtoP": "copies between GPUs",
}
"""Directions of copies, as a sentence names them."""
_DIRECTION = lazy_pattern(r"HtoD|DtoH|DtoD|PtoP")


class StepIdle(msgspec.Struct, frozen=True):
    """Time of a step in which nothing runs on the device, ns."""

    by_cause: dict[str, float]
    between: dict[str, float]
    """The part of `by_cause` between one step and the next."""
    launching_ns: float
    """The part of `by_cause["host"]` in gaps that a launch could take."""
    long_gaps: float
    """Longer gaps in which the GPU waits mostly for the host."""
    in_graphs_ns: float
    """The part between two activities of one launch, which is that of a graph."""
    gaps: dict[str, float]
    """Number of gaps by their main cause."""

    @property
    def total_ns(self) -> float:
        """Of all causes."""
        return sum(self.by_cause.values())


class TypicalStep(msgspec.Struct, frozen=True):
    """One usual step; all times are ns per step and device."""

    basis: StepBasis
    """The steps that the means are over; `wall_ns` is their step time."""
    devices: int
    """Devices that the means are over."""
    device_steps: int
    """Steps of all these devices: what sums are divided by."""
    wall_ns: float
    busy_ns: float
    compute_ns: float
    exposed_comm_ns: float
    exposed_copy_ns: float
    idle: StepIdle
    """Together `wall_ns - busy_ns`."""
    activities: float
    kernels: float
    gaps: float
    kernel_ns: float
    """Mean time of a kernel that computes; one that communicates also waits for other ranks."""
    category_ns: dict[str, float]
    exposed_copies_ns: dict[str, float]
    """Parts of `exposed_copy_ns` by direction: `HtoD`, `DtoH`, `DtoD`, `PtoP`, `other`."""
    comm_ns: dict[str, float]
    """By collective, as far as kernels say which one it is."""
    activity_ns: float
    """Mean time of an activity of any kind."""
    overhead_ns: float
    """Time in which the profiler itself was at work."""
    recording_pct: float
    """Share of the recording of these devices that the steps are, without stray activities."""
    recording_idle_pct: float
    """Share of that recording in which nothing runs."""


class _Steps(msgspec.Struct, frozen=True):
    """Steps of one process, in order of time; none overlaps another."""

    windows: Intervals
    end: Int64s
    """Where the last activity of each ends, no later than its window."""


Totals = defaultdict[str, float]


def _zeros() -> Totals:
    return defaultdict(float)


class _Sums(msgspec.Struct):
    """Sums over steps and devices."""

    steps: int = 0
    values: Totals = msgspec.field(default_factory=_zeros)
    idle: Totals = msgspec.field(default_factory=_zeros)
    between: Totals = msgspec.field(default_factory=_zeros)
    gaps: Totals = msgspec.field(default_factory=_zeros)
    category: Totals = msgspec.field(default_factory=_zeros)
    exposed_copy: Totals = msgspec.field(default_factory=_zeros)
    comm: Totals = msgspec.field(default_factory=_zeros)


def copy_direction(name: str | None) -> str:
    """The direction that the name of a copy states: `HtoD` and so on, or `other`."""
    match = _DIRECTION.search(name or "")
    return match.group() if match else "other"


def typical_step(
    attributed: Attributed, times: Sequence[DeviceTime], usual: UsualSteps | None = None
) -> TypicalStep | None:
    """The usual step of a profile, or of one phase; null where nothing ran on a GPU."""
    if not times:
        return None
    usual = usual or next(iter(usual_steps(attributed)), None)
    devices = {} if usual is None or not usual.is_step else _by_process(usual)
    sums = _Sums()
    overhead = profiler_time(attributed.profile.events)
    # A device without a step of this phase, as one that only prefills, says nothing about it.
    meant = [(time, devices.get(_process(attributed, time))) for time in times]
    chosen = [(time, steps) for time, steps in meant if steps is not None]
    if not chosen:
        usual = None
        chosen = [(time, _recording(time)) for time in times]
    for time, steps in chosen:
        _add(sums, time, steps, overhead)
    whole = [(time, _recording(time).windows) for time, _ in chosen]
    recorded = sum(window.length for _, window in whole)
    busy = sum(_covered(window, time.busy) for time, window in whole)
    count = max(1, sums.steps)
    value = {name: total / count for name, total in sums.values.items()}
    per_step = {
        name: {key: total / count for key, total in getattr(sums, name).items()}
        for name in ("idle", "between", "gaps", "category", "exposed_copy", "comm")
    }
    wall_ms = value["wall"] / 1e6
    return TypicalStep(
        basis=(
            recording_basis(wall_ms)
            if usual is None
            else msgspec.structs.replace(usual.basis, step_ms=wall_ms)
        ),
        devices=len(chosen),
        device_steps=count,
        wall_ns=value["wall"],
        busy_ns=value["busy"],
        compute_ns=value["compute"],
        exposed_comm_ns=value["working"] - value["compute"],
        exposed_copy_ns=value["busy"] - value["working"],
        idle=StepIdle(
            by_cause=per_step["idle"],
            between=per_step["between"],
            launching_ns=value["launching"],
            long_gaps=value["long_gaps"],
            in_graphs_ns=value["graph_gaps"],
            gaps=per_step["gaps"],
        ),
        activities=value["activities"],
        kernels=value["kernels"],
        gaps=value["gaps"],
        kernel_ns=value["kernel_time"] / (value["computing"] or 1),
        category_ns=per_step["category"],
        exposed_copies_ns=per_step["exposed_copy"],
        comm_ns=per_step["comm"],
        activity_ns=value["activity_time"] / (value["activities"] or 1),
        overhead_ns=value["overhead"],
        recording_pct=100 * sums.values["wall"] / max(1, recorded),
        recording_idle_pct=100 * (recorded - busy) / max(1, recorded),
    )


def _by_process(usual: UsualSteps) -> dict[int, _Steps]:
    """The usual steps of each process."""
    steps = {}
    for rows in usual.table.partition_by("process"):
        windows = Intervals(rows["start_ns"].to_numpy(), rows["until_ns"].to_numpy())
        end = np.minimum(rows["end_ns"].to_numpy(), windows.end)
        steps[int(rows["process"][0])] = _Steps(windows, end)
    return steps


def _process(attributed: Attributed, time: DeviceTime) -> int:
    """The process whose steps run on a device."""
    process = dict(attributed.steps.select("step", "process").iter_rows())
    if len(set(process.values())) < 2:
        return 0
    steps = time.rows["step"].drop_nulls().value_counts(sort=True)["step"]
    return int(process[steps[0]]) if len(steps) else 0


def _recording(time: DeviceTime) -> _Steps:
    """All that a device did, without the few activities that lie far away from all others."""
    start, end = bounds(time.rows)
    first, last = int(start.min()), int(end.max())
    stray = find_stray(start, end, STRAY_ONE_IN)
    if stray is not None:
        first, last = (stray.end, last) if stray.before else (first, stray.start)
    ends = np.array([last])
    return _Steps(Intervals(np.array([first]), ends), ends)


def _add(sums: _Sums, time: DeviceTime, steps: _Steps, overhead: Intervals) -> None:
    """Add the usual steps of one device."""
    windows = steps.windows
    inside = _inside(time.rows["start_ns"].to_numpy(), windows)
    rows = time.rows.select("kind", "category", "operator", "dur_ns").filter(series("", inside))
    kernels = rows.filter(pl.col("kind") == "kernel")
    computing = kernels.filter(pl.col("category") != "comm")
    sums.steps += windows.start.size
    values = {
        "wall": windows.length,
        "busy": _covered(windows, time.busy),
        "working": _covered(windows, time.working),
        "compute": _covered(windows, time.compute),
        "overhead": _covered(windows, overhead),
        "activities": rows.height,
        "kernels": kernels.height,
        "computing": computing.height,
        "kernel_time": int(computing["dur_ns"].sum()),
        "activity_time": int(rows["dur_ns"].sum()),
    }
    for name, value in values.items():
        sums.values[name] += value
    _add_gaps(sums, time, steps)
    _add_activities(sums, rows)
    for direction, exposed in _exposed_copies(time, windows):
        sums.exposed_copy[direction] += exposed


def _exposed_copies(time: DeviceTime, windows: Intervals) -> list[tuple[str, int]]:
    """Copies that nothing else hides, by direction; what two share belongs to the first."""
    every = time.rows.select("kind", "name", "start_ns", "dur_ns")
    copies = every.filter(pl.col("kind") == "memcpy").sort("start_ns", maintain_order=True)
    start, end = bounds(copies)
    before = np.maximum.accumulate(np.concatenate([start[:1], end]))[:-1]
    first = np.minimum(np.maximum(start, before), end)
    # What lies in a window or under other work, less what lies under other work.
    either = union(
        np.concatenate([windows.start, time.working.start]),
        np.concatenate([windows.end, time.working.end]),
    )
    exposed = overlap(first, end, either) - overlap(first, end, time.working)
    names = copies["name"].cast(pl.String).to_list()
    return [
        (copy_direction(name), int(exposed_ns))
        for name, exposed_ns in zip(names, exposed, strict=True)
    ]


def _add_gaps(sums: _Sums, time: DeviceTime, steps: _Steps) -> None:
    """Idle time by cause; a gap that a step shares with another counts in proportion."""
    gaps = time.gaps
    start, end = gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy()
    length = np.maximum(end - start, 1)
    share = overlap(start, end, steps.windows) / length
    between = overlap(start, end, Intervals(steps.end, steps.windows.end)) / length
    main = texts_of(gaps["cause"])
    touched = np.bincount(main.codes[share > 0], minlength=len(main.known))
    counted = dict(zip(main.known, touched.tolist(), strict=True))
    for cause in CAUSES:
        spent = gaps[cause].to_numpy()
        sums.gaps[cause] += counted.get(cause, 0)
        sums.idle[cause] += float((spent * share).sum())
        sums.between[cause] += float((spent * between).sum())
    # Before the first activity of a device and after its last, nothing says why it was idle.
    explained = float((length * share).sum())
    idle = steps.windows.length - _covered(steps.windows, time.busy)
    sums.idle["unlinked"] += max(0.0, idle - explained)
    short = length <= LAUNCH_GAP_NS
    sums.values["launching"] += float((gaps["host"].to_numpy() * share)[short].sum())
    sums.values["long_gaps"] += float(share[~short & (gaps["cause"] == "host").to_numpy()].sum())
    sums.values["gaps"] += int((share > 0).sum())
    sums.values["graph_gaps"] += float((length * share)[_in_graph(time)].sum())


def _in_graph(time: DeviceTime) -> np.ndarray:
    """Which gaps lie between two activities of one launch."""
    rows = time.rows.select("start_ns", "launch_row").sort("start_ns", maintain_order=True)
    following = np.searchsorted(
        rows["start_ns"].to_numpy(), time.gaps["end_ns"].to_numpy(), side="left"
    )
    before = take(rows["launch_row"], series("", np.maximum(following - 1, 0)))
    after = take(rows["launch_row"], series("", following))
    return (before == after).fill_null(False).to_numpy()


def _add_activities(sums: _Sums, rows: pl.DataFrame) -> None:
    for category, time in _times(rows, "category"):
        sums.category[category] += time
    for operator, time in _times(rows.filter(pl.col("category") == "comm"), "operator"):
        sums.comm[operator] += time


def _times(rows: pl.DataFrame, by: str) -> list[tuple[str, int]]:
    grouped = rows.group_by(by).agg(pl.col("dur_ns").sum())
    return list(grouped.with_columns(pl.col(by).cast(pl.String).fill_null("")).iter_rows())


def _covered(windows: Intervals, cover: Intervals) -> int:
    return int(overlap(windows.start, windows.end, cover).sum())


def _inside(times: Int64s, windows: Intervals) -> np.ndarray:
    index = np.searchsorted(windows.start, times, side="right") - 1
    return (index >= 0) & (times < windows.end[np.maximum(index, 0)])
