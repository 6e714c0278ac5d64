"""Observations of a run that is only known by cycles (a behavior CSV).

A cycle is a step; its wall time is that of the anchor. Of several GPUs the busiest is observed.
There is no time line, so that its tiles are what the sums allow: GPU functions by category (cut
down in proportion where they add up to more than the cycle, as overlapping ones do), then what the
host spent in synchronizing calls, and the rest as the host. `oncpu` and `runq` become the counts of
the scheduler that a metrics file has, other host functions become host operators with their time
per call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.diagnose.labels import NO_SECTIONS, copy_kind
from solscope.diagnose.observe.host_time import call_kind
from solscope.diagnose.observe.kernel_classes import dtype_in
from solscope.diagnose.observe.sampling import cut_samples
from solscope.errors import InputError
from solscope.intervals import Int64s
from solscope.names import short_name
from solscope.readers.packed import (
    ANCHOR,
    CLOCK_NS,
    VERSION,
    Counter,
    HostCalls,
    HostOp,
    KernelClass,
    Observations,
    Run,
    Step,
    Tile,
    TileKind,
)

SYNC = "cpu_sync"
"""Resource of host functions that wait for the GPU."""
_COUNTED = {"oncpu": "oncpu_ns", "runq": "runq_ns"}
"""Functions that are a state of the host's threads, and the counter that has their time."""


def observe_cycles(attributed: Attributed) -> Observations:
    """Reduce a run known by cycles to what a diagnosis needs."""
    table = attributed.profile.cycles
    if table is None or table.is_empty():
        raise InputError(f"{attributed.profile.path}: no cycles in this file")
    cycles = _main_anchor(table)
    wall, start = cycles["anchor_ns"].to_numpy(), _starts(cycles)
    functions = _functions(table, cycles)
    gpu = _busiest(functions.filter(pl.col("device").is_not_null()))
    host = functions.filter(pl.col("device").is_null())
    categories = _categories(attributed)
    size = cycles.height
    tiles, scale = _tiles(gpu, host, categories, wall)
    calls = _spread(gpu, "calls", size)
    steps = [
        Step(number, begin, length, None, None, None, int(count), True)
        for number, begin, length, count in zip(
            cycles["cycle"].to_list(), start.tolist(), wall.tolist(), calls.tolist(), strict=True
        )
    ]
    clocks, counters = _counters(attributed, table, cycles, host, start + wall)
    return Observations(
        solscope_observations=VERSION,
        run=_run(attributed, cycles, int((start + wall).max()), table["pid"].n_unique()),
        steps=steps,
        tiles=tiles,
        kernels=_kernels(gpu, categories, scale, size),
        host_calls=_host_calls(host, size),
        sections=[],
        host_ops=_host_ops(host),
        stalls=[],
        clocks=clocks,
        counters=counters,
    )


def _main_anchor(table: pl.DataFrame) -> pl.DataFrame:
    """One row per cycle of the anchor with most cycles, in order of time, numbered by `at`.

    Of several processes the one with most cycles counts, and of equals the first: their cycles
    overlap in time, and are not steps of one program.
    """
    cycles = table.unique(["pid", "cycle", "start_ns"], keep="first", maintain_order=True)
    names = cycles["anchor"].cast(pl.String)
    most = names.value_counts().sort(["count", "anchor"], descending=[True, False])["anchor"][0]
    chosen = cycles.filter(names == most)
    counts = chosen.group_by("pid").agg(pl.len(), pl.col("start_ns").min())
    first = counts.sort(["len", "start_ns", "pid"], descending=[True, False, False])["pid"][0]
    return (
        chosen.filter(pl.col("pid").eq_missing(first))
        .select("pid", "cycle", "start_ns", "anchor", "anchor_ns")
        .sort("start_ns", "cycle", nulls_last=True, maintain_order=True)
        .with_row_index("at")
    )


def _starts(cycles: pl.DataFrame) -> Int64s:
    """Starts from the first cycle on; back to back where none is recorded."""
    wall = cycles["anchor_ns"].to_numpy()
    recorded = cycles["start_ns"].null_count() == 0
    start: Int64s = cycles["start_ns"].to_numpy() if recorded else np.cumsum(wall) - wall
    return np.asarray(start - start[0], dtype=np.int64)


def _functions(table: pl.DataFrame, cycles: pl.DataFrame) -> pl.DataFrame:
    """Functions by cycle (`at`), each once whatever metrics it has."""
    key = ["pid", "cycle", "start_ns"]
    once = table.unique([*key, "name", "device"], keep="first", maintain_order=True)
    placed = once.join(cycles.select(*key, "at"), on=key, nulls_equal=True, maintain_order="left")
    return placed.with_columns(
        pl.col("name", "resource").cast(pl.String), pl.col("calls").fill_null(1)
    ).select("at", "name", "resource", "device", "dur_ns", "calls")


def _busiest(gpu: pl.DataFrame) -> pl.DataFrame:
    """Functions of the GPU with most time."""
    times = gpu.group_by("device").agg(pl.col("dur_ns").sum()).sort("dur_ns", "device")
    return gpu if times.height < 2 else gpu.filter(pl.col("device") == times["device"][-1])


def _categories(attributed: Attributed) -> dict[str, str]:
    table = attributed.aggregates.select(pl.col("name", "category").cast(pl.String))
    return dict(table.iter_rows())


def _spread(table: pl.DataFrame, column: str, size: int) -> Int64s:
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, table["at"].to_numpy(), table[column].to_numpy())
    return out


def _tiles(
    gpu: pl.DataFrame, host: pl.DataFrame, categories: dict[str, str], wall: Int64s
) -> tuple[list[Tile], Int64s]:
    """Tiles that add up to the cycle, and thousandths by which GPU functions were cut down."""
    size = wall.size
    parts: dict[tuple[TileKind, str], Int64s] = {}
    for name, calls in _by_name(gpu):
        category = categories.get(name, "other")
        kind: TileKind = category if category in ("comm", "memcpy") else "compute"  # type: ignore[assignment]
        key = (kind, copy_kind(name) if kind == "memcpy" else category)
        parts[key] = parts.get(key, np.zeros(size, np.int64)) + _spread(calls, "dur_ns", size)
    busy = sum(parts.values(), np.zeros(size, np.int64))
    # More GPU time than there is time: functions ran side by side, or reached beyond the cycle.
    scale = np.where(busy > wall, 1000 * wall // np.maximum(busy, 1), 1000)
    tiles = {key: ns * scale // 1000 for key, ns in parts.items()}
    idle = wall - sum(tiles.values(), np.zeros(size, np.int64))
    waited = _spread(host.filter(pl.col("resource") == SYNC), "dur_ns", size)
    sync = np.minimum(waited, idle)
    tiles["idle", "sync"] = sync
    tiles["idle", NO_SECTIONS] = idle - sync
    return [
        Tile(kind, name, ns.tolist()) for (kind, name), ns in sorted(tiles.items()) if ns.any()
    ], scale


def _by_name(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for rows in table.partition_by("name", maintain_order=True):
        yield str(rows["name"][0]), rows


def _per_call(rows: pl.DataFrame) -> pl.Series:
    """Mean time of a call, cycle by cycle."""
    return rows["dur_ns"] / rows["calls"].clip(lower_bound=1)


def _kernels(
    gpu: pl.DataFrame, categories: dict[str, str], scale: Int64s, size: int
) -> list[KernelClass]:
    classes = []
    for name, rows in _by_name(gpu):
        ns = _spread(rows, "dur_ns", size)
        classes.append(
            KernelClass(
                category=categories.get(name, "other"),
                name=short_name(name)[:160],
                dtype=dtype_in(name),
                calls=_spread(rows, "calls", size).tolist(),
                ns=ns.tolist(),
                exposed_ns=(ns * scale // 1000).tolist(),
                p50_ns=int(_per_call(rows).median() or 0),  # type: ignore[arg-type]
                grids={},
                bytes=0,
            )
        )
    return classes


def _host_calls(host: pl.DataFrame, size: int) -> list[HostCalls]:
    calls = host.filter(pl.col("name").str.contains(r"^(cuda|cu[A-Z]|hip)"))
    kinds = calls.with_columns(
        pl.col("name").map_elements(call_kind, return_dtype=pl.String).alias("kind")
    )
    return [
        HostCalls(
            rows["kind"][0],
            _spread(rows, "calls", size).tolist(),
            _spread(rows, "dur_ns", size).tolist(),
        )
        for rows in kinds.sort("kind").partition_by("kind", maintain_order=True)
    ]


def _host_ops(host: pl.DataFrame) -> list[HostOp]:
    """Time per call; of a state, per slice of a thread's time."""
    ops = []
    for name, rows in _by_name(host.filter(pl.col("resource") != "runq")):
        each = _per_call(rows)
        total, calls = int(rows["dur_ns"].sum()), max(1, int(rows["calls"].sum()))
        middle, high = each.median(), each.quantile(0.99)
        ops.append(HostOp(name, calls, int(middle or 0), total // calls, int(high or 0), {}))  # type: ignore[arg-type]
    return ops


def _counters(
    attributed: Attributed,
    table: pl.DataFrame,
    cycles: pl.DataFrame,
    host: pl.DataFrame,
    ends: Int64s,
) -> tuple[list[list[int]], list[Counter]]:
    """One reading per cycle and metric; samples of the file beside it for metrics without any.

    Readings come first because files differ in the unit of their samples, and some have none.
    """
    span = int(ends.max())
    clocks, counters = cut_samples(_readings(table, cycles, ends), 0, span)
    first, samples = cycles["start_ns"][0], attributed.profile.metrics
    if samples is not None and first is not None:
        names = [counter.name for counter in counters]
        others = samples.filter(~pl.col("metric").cast(pl.String).is_in(names))
        # A sample of every core or GPU has the same time: their mean counts once.
        each = others.group_by("t_ns", "metric", "device").agg(pl.col("value").mean())
        more, of_clock = cut_samples(each, first, span)
        counters += [msgspec.structs.replace(c, clock=c.clock + len(clocks)) for c in of_clock]
        clocks += more
    for resource, name in _COUNTED.items():
        state = host.filter(pl.col("resource") == resource)
        if not state.is_empty():
            grown = np.cumsum(_spread(state, "dur_ns", ends.size))
            values = (grown - grown[0]).astype(np.float64).tolist()
            counters.append(Counter(name, None, True, len(clocks), values, len(values)))
    return [*clocks, (ends // CLOCK_NS).tolist()], counters


def _readings(table: pl.DataFrame, cycles: pl.DataFrame, ends: Int64s) -> pl.DataFrame:
    """Readings by cycle and metric, at the middle of the cycle."""
    key = ["pid", "cycle", "start_ns"]
    middle = pl.Series("t_ns", ends - cycles["anchor_ns"].to_numpy() // 2)
    placed = table.join(cycles.select(key).with_columns(middle), on=key, nulls_equal=True)
    named = placed.filter(pl.col("metric").is_not_null())
    return named.group_by("t_ns", "metric", "device").agg(pl.col("mu").median().alias("value"))


def _run(attributed: Attributed, cycles: pl.DataFrame, span_ns: int, processes: int) -> Run:
    profile = attributed.profile
    return Run(
        name=Path(profile.path).name,
        format=profile.format,
        gpus=sorted({device.name for device in profile.metadata.devices if device.name}),
        framework=profile.metadata.framework,
        found_by=f"{ANCHOR}{cycles['anchor'][0]}",
        span_ns=span_ns,
        unix_ns=cycles["start_ns"][0],
        processes=max(1, processes),
        devices=max(1, len(profile.metadata.devices)),
        stacks=False,
        shapes=False,
        operators=0,
        graph_share_pct=0.0,
        linked_pct=0.0,
        overhead_ns=0,
        dtypes={},
        warnings=[f"{w.code}: {w.message}" for w in profile.warnings],
    )
