"""Where the GPU time of a profile goes, on one page.

Definitions. *Span* is from the first start to the last end of the GPU activities of one device.
*Busy* is the union of them all. *Compute* is every activity that is neither communication nor
memcpy (memset counts as compute). *Exposed communication* is union(comm) without union(compute);
*exposed memcpy* is union(memcpy) without union(compute and comm). All of it is exact interval
arithmetic on nanoseconds.

With several devices (or ranks in one file) each has its own `DeviceSummary`; the totals of the
profile are sums over them, and its percentages are shares of the summed spans.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.intervals import union
from solscope.profile import ProfileWarning
from solscope.views.coverage import CoverageSummary, coverage
from solscope.views.device_time import DeviceTime, bounds, device_times
from solscope.views.execution import Execution, execution
from solscope.views.idle import IdleCause, idle_causes
from solscope.views.kernels import KernelRow, kernels
from solscope.views.percent import percent_of
from solscope.views.steps import StepSummary, step_summary
from solscope.views.verdict import Verdict, verdict
from solscope.views.warnings import warnings_of


class CategoryTime(msgspec.Struct, frozen=True):
    """GPU time of one category."""

    category: str
    calls: int
    time_ms: float
    pct: float
    """Share of total GPU activity time; all categories sum to 100."""


class DeviceSummary(msgspec.Struct, frozen=True):
    """One device of a profile with a time line."""

    device: int | None
    rank: int | None
    name: str
    kernels: int
    gpu_span_ms: float
    gpu_busy_ms: float
    gpu_busy_pct: float | None
    gpu_idle_pct: float | None
    kernel_time_ms: float
    compute_ms: float
    """Union of everything that is neither communication nor memcpy."""
    comm_ms: float
    exposed_comm_ms: float
    exposed_comm_pct: float | None
    memcpy_ms: float
    exposed_memcpy_ms: float
    idle: list[IdleCause]


class Summary(msgspec.Struct, frozen=True):
    """One profile on one page. A value that does not exist for the format is null."""

    verdict: Annotated[
        Verdict,
        msgspec.Meta(
            description="What limits a usual step of this profile, as a sentence with its numbers."
        ),
    ]
    path: str
    format: str
    devices: list[str]
    framework: str | None
    rank: int | None
    world_size: int | None
    stage: str | None
    events: int
    kernels: int
    gpu_span_ms: float | None
    gpu_busy_ms: float | None
    gpu_busy_pct: float | None
    gpu_idle_pct: float | None
    kernel_time_ms: float | None
    compute_ms: float | None
    comm_ms: float | None
    """Union of communication; for a summary, whose overlap is not known, their sum."""
    exposed_comm_ms: float | None
    exposed_comm_pct: float | None
    memcpy_ms: float | None
    exposed_memcpy_ms: float | None
    coverage: CoverageSummary
    execution: Execution
    """How it runs: graphs, compiled code, dtypes, backends."""
    categories: list[CategoryTime]
    steps: StepSummary
    idle: list[IdleCause]
    top_kernels: list[KernelRow]
    per_device: list[DeviceSummary]
    """One entry per device when there are several; empty for one."""
    metrics: list[str]
    """Names of the sensors sampled along with the profile."""
    warnings: list[ProfileWarning]


def summarize(attributed: Attributed, top: int = 10) -> Summary:
    """The summary of one profile, with its `top` most expensive kernels."""
    profile = attributed.profile
    meta = profile.metadata
    times = device_times(attributed)
    devices = [_device(attributed, time) for time in times]
    categories = category_times(attributed)
    total: dict[str, Any] = _total(attributed, devices)
    return Summary(
        verdict=verdict(attributed, times),
        path=profile.path,
        format=profile.format,
        devices=[device.label for device in meta.devices],
        framework=meta.framework,
        rank=meta.rank,
        world_size=meta.world_size,
        stage=meta.stage,
        events=meta.events_in_file,
        coverage=coverage(attributed),
        execution=execution(attributed, times),
        categories=categories,
        steps=step_summary(attributed),
        idle=_sum_idle(devices),
        top_kernels=kernels(attributed).kernels[:top],
        per_device=devices if len(devices) > 1 else [],
        metrics=[]
        if profile.metrics is None
        else sorted(profile.metrics["metric"].cast(pl.String).unique()),
        warnings=[*profile.warnings, *warnings_of(attributed)],
        **total,
    )


def category_times(attributed: Attributed) -> list[CategoryTime]:
    """Time by category, largest first; shares of all GPU activity time."""
    table = time_rows(attributed)
    total = int(table["total_ns"].sum())
    grouped = (
        table.group_by("category")
        .agg(pl.col("calls").sum(), pl.col("total_ns").sum())
        .sort(["total_ns", "category"], descending=[True, False])
    )
    return [
        CategoryTime(category, calls, ns / 1e6, 100.0 * ns / total if total else 0.0)
        for category, calls, ns in grouped.iter_rows()
    ]


def time_rows(attributed: Attributed) -> pl.DataFrame:
    """`kind`, `name`, `category`, `calls`, `total_ns`: one row per activity, or per aggregate."""
    columns = ["kind", "name", "category"]
    if attributed.profile.is_aggregate:
        return attributed.aggregates.select(*columns, "calls", "total_ns")
    return attributed.activities.select(
        *columns,
        pl.lit(1, pl.Int64).alias("calls"),
        pl.col("dur_ns").fill_null(0).alias("total_ns"),
    )


def _total(attributed: Attributed, devices: list[DeviceSummary]) -> dict[str, float | int | None]:
    """The numbers of the whole profile: counts and sums over all activities, times over devices."""
    rows = time_rows(attributed)
    launched = rows.filter(pl.col("kind") == "kernel")
    timed = not rows.is_empty()
    times = _no_times(rows) if not devices else _device_times(devices)
    return {
        "kernels": int(launched["calls"].sum()),
        "kernel_time_ms": int(launched["total_ns"].sum()) / 1e6 if timed else None,
        **times,
    }


def _no_times(rows: pl.DataFrame) -> dict[str, float | None]:
    """An aggregate has sums of what it lists, and nothing else."""

    def listed(which: pl.Expr) -> float | None:
        chosen = rows.filter(which)
        return None if chosen.is_empty() else int(chosen["total_ns"].sum()) / 1e6

    names = ("gpu_span_ms", "gpu_busy_ms", "gpu_busy_pct", "gpu_idle_pct", "compute_ms")
    exposed = ("exposed_comm_ms", "exposed_comm_pct", "exposed_memcpy_ms")
    return {
        **dict.fromkeys((*names, *exposed)),
        "comm_ms": None if rows.is_empty() else listed(pl.col("category") == "comm") or 0.0,
        "memcpy_ms": listed(pl.col("kind") == "memcpy"),
    }


def _device_times(devices: list[DeviceSummary]) -> dict[str, float | None]:
    names = ("gpu_span_ms", "gpu_busy_ms", "compute_ms", "comm_ms", "memcpy_ms")
    exposed = ("exposed_comm_ms", "exposed_memcpy_ms")
    sums: dict[str, float] = {
        name: sum(getattr(device, name) for device in devices) for name in (*names, *exposed)
    }
    span = sums["gpu_span_ms"]
    return {
        **sums,
        "gpu_busy_pct": percent_of(sums["gpu_busy_ms"], span),
        "gpu_idle_pct": percent_of(span - sums["gpu_busy_ms"], span),
        "exposed_comm_pct": percent_of(sums["exposed_comm_ms"], span),
    }


def _device(attributed: Attributed, time: DeviceTime) -> DeviceSummary:
    rows = time.rows.select("kind", "category", "start_ns", "dur_ns")
    busy, working, compute = time.busy.length, time.working.length, time.compute.length
    return DeviceSummary(
        device=time.device,
        rank=time.rank,
        name=_device_name(attributed, time.device),
        kernels=int((rows["kind"] == "kernel").sum()),
        gpu_span_ms=time.span_ns / 1e6,
        gpu_busy_ms=busy / 1e6,
        gpu_busy_pct=percent_of(busy, time.span_ns),
        gpu_idle_pct=percent_of(time.span_ns - busy, time.span_ns),
        kernel_time_ms=int(rows.filter(pl.col("kind") == "kernel")["dur_ns"].sum()) / 1e6,
        compute_ms=compute / 1e6,
        comm_ms=_length(rows.filter(pl.col("category") == "comm")) / 1e6,
        exposed_comm_ms=(working - compute) / 1e6,
        exposed_comm_pct=percent_of(working - compute, time.span_ns),
        memcpy_ms=_length(rows.filter(pl.col("kind") == "memcpy")) / 1e6,
        exposed_memcpy_ms=(busy - working) / 1e6,
        idle=idle_causes(time.gaps),
    )


def _length(rows: pl.DataFrame) -> int:
    return union(*bounds(rows)).length


def _device_name(attributed: Attributed, ordinal: int | None) -> str:
    for device in attributed.profile.metadata.devices:
        if device.ordinal == ordinal:
            return device.label
    return f"GPU {ordinal}" if ordinal is not None else "GPU (not numbered)"


def _sum_idle(devices: list[DeviceSummary]) -> list[IdleCause]:
    by_cause: dict[str, IdleCause] = {}
    for device in devices:
        for cause in device.idle:
            before = by_cause.get(cause.cause, IdleCause(cause.cause, 0.0, 0))
            by_cause[cause.cause] = IdleCause(
                cause.cause, before.time_ms + cause.time_ms, before.gaps + cause.gaps
            )
    return sorted(by_cause.values(), key=lambda cause: -cause.time_ms)
