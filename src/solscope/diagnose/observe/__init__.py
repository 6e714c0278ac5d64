"""From an attributed profile to `Observations`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.graphs import launched_by_graph
from solscope.attribution.profiler_events import profiler_time
from solscope.attribution.usual_steps import WHOLE
from solscope.diagnose.labels import copy_kind
from solscope.diagnose.observe.behavior import observe_cycles
from solscope.diagnose.observe.host_line import host_lines
from solscope.diagnose.observe.host_time import (
    calls_by_kind,
    host_ops,
    main_thread,
    section_times,
    sections_of,
)
from solscope.diagnose.observe.kernel_classes import kernel_classes
from solscope.diagnose.observe.pieces import Pieces, per_step
from solscope.diagnose.observe.sampling import cut_samples
from solscope.diagnose.observe.tiling import GROUPS, IdlePieces, busy_pieces, group_of, idle_pieces
from solscope.errors import InputError
from solscope.intervals import Int64s, Intervals, overlap
from solscope.readers.packed import (
    VERSION,
    Counter,
    Observations,
    Run,
    Stall,
    Step,
    Tile,
    TileKind,
    decode,
)
from solscope.views.idle import host_calls

STALL_NS = 500_000
"""Waits of the GPU for the host from this length on are listed one by one."""
MOST_STALLS = 300


class _Window(NamedTuple):
    """The steps of the run, and the activities that tile them."""

    steps: pl.DataFrame
    edges: Int64s
    activities: pl.DataFrame
    """Of the observed GPU, sorted by start, with `index`: position of their step, or -1."""


def observe(attributed: Attributed) -> Observations:
    """Reduce one run to what a diagnosis needs.

    Of several processes the first, and of its GPUs the one with most activity, is observed.
    """
    if attributed.profile.observations is not None:
        return decode(attributed.profile.observations, attributed.profile.path)
    if attributed.profile.cycles is not None:
        return observe_cycles(attributed)
    window = _window(attributed)
    events = attributed.profile.events
    calls = host_calls(events)
    sections = sections_of(events)
    lines = host_lines(sections, calls)
    busy = busy_pieces(window.activities, window.edges)
    idle = idle_pieces(calls, window.activities, lines, window.edges)
    own = profiler_time(events)
    steps = _steps(window, own)
    run = _run(attributed, window, own)
    clocks: list[list[int]] = []
    counters: list[Counter] = []
    if attributed.profile.metrics is not None and run.unix_ns is not None:
        clocks, counters = cut_samples(attributed.profile.metrics, run.unix_ns, run.span_ns)
    main = main_thread(events, window.activities)
    return Observations(
        solscope_observations=VERSION,
        run=run,
        steps=steps,
        tiles=_tiles(window, busy, idle),
        kernels=kernel_classes(window.activities, busy, steps),
        host_calls=calls_by_kind(calls, window.edges),
        sections=section_times(events, sections, main, window.edges),
        host_ops=host_ops(events, window.activities, main, window.edges),
        stalls=_stalls(idle, int(window.edges[0])),
        clocks=clocks,
        counters=counters,
    )


def _nothing(attributed: Attributed) -> str:
    """Why there is nothing to diagnose."""
    codes = {warning.code for warning in attributed.profile.warnings}
    if "metrics_only" in codes:
        return "the file has samples only; pass the trace or the cycles that they belong to"
    if "truncated" in codes:
        return (
            "the file breaks off before any GPU activity, so nothing to diagnose; record it again"
        )
    return "no GPU activity with a time line, so nothing to diagnose"


def _window(attributed: Attributed) -> _Window:
    steps = attributed.steps.filter(
        (pl.col("process") == 0) & pl.col("start_ns").is_not_null()
    ).sort("start_ns")
    if steps.is_empty():
        raise InputError(f"{attributed.profile.path}: {_nothing(attributed)}")
    numbers = steps["step"].to_list()
    timed = attributed.activities.filter(pl.col("start_ns").is_not_null()).with_columns(
        pl.col("dur_ns").fill_null(0)
    )
    own = timed.filter(pl.col("step").is_in(numbers))
    busiest = own.group_by("rank", "device").agg(pl.col("dur_ns").sum()).sort("dur_ns").row(-1)
    on_gpu = pl.col("rank").eq_missing(busiest[0]) & pl.col("device").eq_missing(busiest[1])
    mine = own.filter(on_gpu)
    bounds = (
        mine.group_by("step")
        .agg(
            pl.col("start_ns").min().alias("first"),
            (pl.col("start_ns") + pl.col("dur_ns")).max().alias("last"),
            pl.len().alias("activities"),
        )
        .sort("first")
    )
    steps = bounds.join(steps, on="step", how="left", maintain_order="left")
    starts = steps["first"].to_numpy()
    edges = np.append(starts, max(int(steps["last"].max()), int(starts[-1]) + 1))  # type: ignore[arg-type]
    order = {number: index for index, number in enumerate(steps["step"].to_list())}
    index = pl.col("step").replace_strict(order, default=-1, return_dtype=pl.Int64)
    activities = timed.filter(on_gpu).with_columns(index.alias("index"))
    return _Window(steps, edges, activities.sort("start_ns", maintain_order=True))


def _steps(window: _Window, profiler: Intervals) -> list[Step]:
    table, edges = window.steps, window.edges
    last = table.height - 1
    of_profiler = overlap(edges[:-1], edges[1:], profiler).tolist()
    whole = (~table["cut"] & (table["found_by"] != WHOLE)).to_list()
    rows = zip(
        table["step"],
        table["phase"].cast(pl.String),
        table["requests"],
        table["tokens"],
        table["activities"],
        strict=True,
    )
    return [
        Step(
            number=number,
            start_ns=int(edges[index] - edges[0]),
            wall_ns=int(edges[index + 1] - edges[index]),
            phase=phase,
            requests=requests,
            tokens=tokens,
            activities=activities,
            whole=whole[index] and index < last,
            profiler_ns=of_profiler[index],
        )
        for index, (number, phase, requests, tokens, activities) in enumerate(rows)
    ]


# --- Tiles


def _tiles(window: _Window, busy: Pieces, idle: IdlePieces) -> list[Tile]:
    size = window.edges.size - 1
    names = window.activities["category"].cast(pl.String).to_list()
    kinds: list[TileKind] = ["compute", "comm", "memcpy"]
    group = group_of(window.activities)
    copies = {
        name: copy_kind(name or "")
        for name in window.activities.filter(pl.Series(group == 2))["name"].unique().to_list()
    }
    full = window.activities["name"].to_list()
    keys = [
        (kinds[g], copies[full[row]] if g == 2 else names[row])
        for row, g in enumerate(group.tolist())
    ]
    labels = [keys[owner] for owner in busy.owner.tolist()]
    labels += [("idle", label) for label in idle.labels]
    length = np.concatenate([busy.end - busy.start, idle.pieces.end - idle.pieces.start])
    windows = np.concatenate([busy.window, idle.pieces.window])
    states = sorted(set(labels), key=lambda key: ((*GROUPS, "idle").index(key[0]), key[1]))
    number = {key: index for index, key in enumerate(states)}
    code = np.array([number[label] for label in labels], dtype=np.int64)
    return [
        Tile(kind, name, per_step(size, windows[code == index], length[code == index]))
        for index, (kind, name) in enumerate(states)
    ]


def _stalls(idle: IdlePieces, zero: int) -> list[Stall]:
    waits = ("unlinked", "launch_wait", "sync")
    length = idle.pieces.end - idle.pieces.start
    table = pl.DataFrame(
        {
            "gap": idle.pieces.owner,
            "window": idle.pieces.window,
            "start": idle.pieces.start,
            "ns": length,
            "where": idle.labels,
        },
        schema_overrides={"where": pl.String},
    ).filter(~pl.col("where").is_in(waits))
    long = (
        table.sort("ns", descending=True)
        .group_by("gap", maintain_order=True)
        .agg(
            pl.col("window").min(),
            pl.col("start").min(),
            pl.col("ns").sum(),
            pl.col("where").first(),
        )
        .filter(pl.col("ns") >= STALL_NS)
        .sort("ns", descending=True)
        .head(MOST_STALLS)
        .sort("start")
    )
    rows = long.select("window", "start", "ns", "where").iter_rows()
    return [Stall(step, start - zero, ns, where) for step, start, ns, where in rows]


# --- The run


def _run(attributed: Attributed, window: _Window, profiler: Intervals) -> Run:
    profile = attributed.profile
    meta = profile.metadata
    events, activities = profile.events, window.activities
    total = max(1, int(activities["dur_ns"].sum()))
    replayed = activities.filter(launched_by_graph(events, activities["launch_row"]))
    linked = activities.filter(pl.col("launch_row").is_not_null())
    kinds = events["kind"]
    offset = meta.unix_offset_ns
    return Run(
        name=Path(profile.path).name,
        format=profile.format,
        gpus=sorted({device.model for device in meta.devices if device.model}),
        framework=meta.framework,
        found_by=window.steps["found_by"][-1],
        span_ns=int(window.edges[-1] - window.edges[0]),
        unix_ns=None if offset is None else int(window.edges[0]) + offset,
        processes=max(1, attributed.steps["process"].n_unique()),
        devices=max(1, attributed.activities.select("rank", "device").n_unique()),
        stacks=bool((kinds == "python").any()),
        shapes=events["input_dims"].null_count() < events.height,
        operators=int((kinds == "cpu_op").sum()),
        graph_share_pct=100.0 * int(replayed["dur_ns"].sum()) / total,
        linked_pct=100.0 * int(linked["dur_ns"].sum()) / total,
        overhead_ns=profiler.length,
        dtypes=_dtypes(events, activities),
        warnings=[f"{w.code}: {w.message}" for w in profile.warnings],
    )


def _dtypes(events: pl.DataFrame, activities: pl.DataFrame) -> dict[str, float]:
    """Types of the inputs of matrix products, by share of their GPU time."""
    gemms = activities.filter((pl.col("category") == "gemm") & pl.col("op_row").is_not_null())
    if gemms.is_empty():
        return {}
    types = events["input_types"].gather(gemms["op_row"]).cast(pl.String)
    table = gemms.select("dur_ns").with_columns(types.alias("types")).drop_nulls()
    total = int(table["dur_ns"].sum())
    sums: dict[str, int] = {}
    for text, ns in table.group_by("types").agg(pl.col("dur_ns").sum()).iter_rows():
        first = re.search(r"[A-Za-z][\w:]*", text)
        name = (first[0] if first else "?").removeprefix("c10::")
        sums[name] = sums.get(name, 0) + ns
    return (
        {name: round(100.0 * ns / total, 2) for name, ns in sorted(sums.items())} if total else {}
    )
