"""What the host did while the GPU waited for it, and which path through both sets the step.

* *Waiting*: from the end of the GPU's work to the start of the launch call that brings it more.
  Each nanosecond of it belongs to the innermost annotation, to the outermost operator and to the
  innermost Python frame that the launching thread was in; `OUTSIDE` where it was in none.
* *Queue depth*: activities that are launched and not finished, over time (`views.launch_queue`).
* *Critical path*: which of host and GPU each part of the span waited for, and the slack of the rest
  (`views.critical_path`, `views.slack`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import pick, series
from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis, UsualSteps, usual_steps
from solscope.errors import InputError
from solscope.events import THREAD
from solscope.intervals import Intervals, gaps, overlap, union
from solscope.views.critical_path import PathPart, critical_path
from solscope.views.device_time import DeviceTime, bounds, device_times
from solscope.views.host_stacks import Waiting, WaitingStack, host_stacks, spent, waiting_stacks
from solscope.views.idle import host_calls, launch_ending, places
from solscope.views.launch_queue import QueuePart, launch_queue
from solscope.views.percent import percent_of
from solscope.views.slack import OperatorSlack

LAUNCH_US = 3.0
"""A launch call of a host that is not slowed down."""


class HostTable(msgspec.Struct, frozen=True):
    """The host side of a profile."""

    profile: str
    span_ms: float
    waiting_ms: float
    waiting_pct: float | None
    """Of the span of the GPU."""
    sections: list[Waiting]
    """By innermost annotation; empty without any."""
    operators: list[Waiting]
    frames: list[Waiting]
    basis: list[StepBasis]
    """The steps that numbers per step are about, by phase; all other numbers are about the whole
    recording."""
    between_steps_ms: float | None
    """Waiting from the end of a usual step to the start of the next, mean; null without steps."""
    between: list[Waiting]
    """The same by innermost Python frame, else by section."""
    launches: int
    launches_per_s: float | None
    """While the launching thread was at work."""
    launch_us: float | None
    """Mean duration of a launch call."""
    faster_launches_us: float
    """The launch time that `faster_ms` assumes."""
    faster_ms: float | None
    """Most that launches of that length would save: their time beyond it on the host's part of the
    critical path, and no more than the waiting."""
    queue_mean: float | None
    queue_empty_pct: float | None
    """Share of the span with nothing launched and unfinished."""
    queue: list[QueuePart]
    """The queue over time, in equal parts of the span; empty without linked launches."""
    path_gpu_ms: float
    path_host_ms: float
    path_launch_ms: float
    """The critical path of all steps: GPU, host, latency between a launch and its activity."""
    path_sync_ms: float
    """And from the end of the GPU's work to the return of calls that waited for it. The four add
    to the span."""
    path: list[PathPart]
    path_operators: list[OperatorSlack]
    """GPU time by operator, and how much later its activities could end without delaying the end of
    the recording."""
    stacks: list[WaitingStack]
    """Waiting by the whole stack of the host, for flame graphs; it adds to `waiting_ms`. Empty
    where it was not asked for, as for pages."""


def host_table(
    attributed: Attributed, launch_us: float = LAUNCH_US, *, stacked: bool = True
) -> HostTable:
    """The host side of the GPU with most activities.

    Without `stacked`, `stacks` is empty: pages draw none, and of a large trace they take longer
    than all else.
    """
    path = attributed.profile.path
    times = [time for time in device_times(attributed) if time.rows["launch_row"].count()]
    if not times:
        raise InputError(f"{path}: no launch calls were recorded, so the host is not known")
    time = max(times, key=lambda device: device.rows.height)
    events = attributed.profile.events
    calls = host_calls(events)
    waits, thread = _waits(time, calls)
    stacks = host_stacks(events, thread)
    launches = _launches(time, calls)
    queue = launch_queue(time, launches)
    critical = critical_path(time, calls, thread)
    steps = usual_steps(attributed)
    between, mean = _between(steps, waits)
    held = stacks["python"] if stacks["python"].names else stacks["annotation"]
    return HostTable(
        profile=path,
        span_ms=time.span_ns / 1e6,
        waiting_ms=waits.length / 1e6,
        waiting_pct=percent_of(waits.length, time.span_ns),
        sections=spent(stacks["annotation"], waits, outer=False),
        operators=spent(stacks["cpu_op"], waits, outer=True),
        frames=spent(stacks["python"], waits, outer=False),
        basis=[phase.basis for phase in steps],
        between_steps_ms=mean,
        between=[] if mean is None else spent(held, between, outer=False),
        launches=launches.height,
        launches_per_s=_rate(launches),
        launch_us=_mean_us(launches),
        faster_launches_us=launch_us,
        faster_ms=_faster(launches, critical.host, waits, launch_us),
        queue_mean=None if queue is None else queue.mean,
        queue_empty_pct=None if queue is None else queue.empty_pct,
        queue=[] if queue is None else queue.parts,
        path_gpu_ms=critical.gpu_ns / 1e6,
        path_host_ms=critical.host.length / 1e6,
        path_launch_ms=critical.launch_ns / 1e6,
        path_sync_ms=critical.sync_ns / 1e6,
        path=critical.parts,
        path_operators=critical.operators,
        stacks=waiting_stacks(stacks, waits) if stacked else [],
    )


def _waits(time: DeviceTime, calls: pl.DataFrame) -> tuple[Intervals, dict[str, object]]:
    """When the GPU waits for the host, and the thread that launches most."""
    idle = gaps(time.busy)
    launch = launch_ending(time.rows, idle, calls)
    begun = launch["start_ns"].fill_null(-1).to_numpy()
    launched = begun >= 0
    end = np.clip(begun[launched], idle.start[launched], idle.end[launched])
    waits = union(idle.start[launched], end)
    place = places(calls, time.rows["launch_row"])
    rows = pick(calls, series("", place[place >= 0]), THREAD)
    most = rows.group_by(THREAD).len().sort("len", descending=True)
    return _nonempty(waits), dict(most.select(THREAD).row(0, named=True))


def _nonempty(intervals: Intervals) -> Intervals:
    keep = intervals.end > intervals.start
    return Intervals(intervals.start[keep], intervals.end[keep])


def _launches(time: DeviceTime, calls: pl.DataFrame) -> pl.DataFrame:
    """Distinct launch calls of the activities, with their thread, start and duration."""
    place = places(calls, time.rows["launch_row"].drop_nulls().unique())
    columns = ("row", "start_ns", "dur_ns", *THREAD)
    return pick(calls, series("", np.sort(place[place >= 0])), columns).sort("start_ns")


def _rate(launches: pl.DataFrame) -> float | None:
    if launches.height < 2:
        return None
    start, end = bounds(launches)
    return 1e9 * launches.height / max(1, int(end.max() - start.min()))


def _mean_us(launches: pl.DataFrame) -> float | None:
    return None if launches.is_empty() else int(launches["dur_ns"].sum()) / launches.height / 1e3


def _faster(
    launches: pl.DataFrame, host: Intervals, waits: Intervals, launch_us: float
) -> float | None:
    """Time of launch calls beyond `launch_us` each on the host's part of the critical path.

    Calls also run while the GPU still works: the GPU cannot gain more than it waits.
    """
    if launches.is_empty():
        return None
    start, end = bounds(launches)
    late = np.maximum(end - start - round(1e3 * launch_us), 0)
    share = overlap(start, end, host) / np.maximum(end - start, 1)
    return min(float((late * share).sum()), waits.length) / 1e6


def _between(steps: Sequence[UsualSteps], waits: Intervals) -> tuple[Intervals, float | None]:
    """The part of the waiting that lies after usual steps, and its mean per step."""
    followed = [phase.table for phase in steps if phase.measured == "start_to_start"]
    if not followed:
        return Intervals(waits.start[:0], waits.end[:0]), None
    first = pl.concat(followed).filter(pl.col("process") == 0).sort("start_ns")
    end, following = first["end_ns"].to_numpy(), first["until_ns"].to_numpy()
    free = following > end
    cut = _common(waits, Intervals(end[free], following[free]))
    return cut, cut.length / 1e6 / max(1, first.height)


def _common(a: Intervals, b: Intervals) -> Intervals:
    """Intervals that both cover; each is disjoint and sorted."""
    first = np.searchsorted(b.end, a.start, side="right")
    last = np.searchsorted(b.start, a.end, side="left")
    counts = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(a.start.size), counts)
    # Those of one interval of `a` follow one another.
    theirs = np.arange(mine.size) - np.repeat(np.cumsum(counts) - counts - first, counts)
    start = np.maximum(a.start[mine], b.start[theirs])
    return Intervals(start, np.minimum(a.end[mine], b.end[theirs]))
