"""The host, step by step: annotated sections, runtime calls, operators."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from solscope.diagnose.labels import section_name
from solscope.diagnose.observe.host_line import MOST_SECTIONS, OTHER_SECTIONS
from solscope.diagnose.observe.pieces import Pieces, per_step, split
from solscope.events import LAUNCH_KINDS, THREAD
from solscope.intervals import Int64s, Intervals, nest, overlap, union
from solscope.readers.packed import HostCalls, HostOp, Section
from solscope.views.idle import ALLOC_CALL, SYNC_CALL

MOST_OPS = 48
MOST_SHAPES = 6

_CALLS = (
    ("graph_launch", re.compile(r"GraphLaunch")),
    ("launch", re.compile(r"Launch")),
    ("sync", SYNC_CALL),
    ("free", re.compile(r"^(cuda|hip)Free|^cuMem(Free|Unmap|Release)")),
    ("host_alloc", re.compile(r"HostAlloc|HostRegister|MallocHost")),
    ("alloc", ALLOC_CALL),
    ("memcpy", re.compile(r"(?i)memcpy")),
    ("memset", re.compile(r"(?i)memset")),
    ("capture", re.compile(r"Capture(?!.*IsCapturing)|GraphInstantiate|ModuleLoad|LibraryLoad")),
)


def main_thread(events: pl.DataFrame, activities: pl.DataFrame) -> tuple[object, ...] | None:
    """The thread that launched most activities."""
    rows = activities["launch_row"].drop_nulls()
    if rows.is_empty():
        return None
    threads = events.select(THREAD)[rows].group_by(THREAD).len().sort("len")
    return threads.row(-1)[:3]


def _on(thread: tuple[object, ...]) -> pl.Expr:
    return pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(THREAD, thread, strict=True)
    )


def sections_of(events: pl.DataFrame) -> pl.DataFrame:
    """Annotated sections: `start_ns`, `dur_ns`, thread, and `section`, their name."""
    table = (
        events.lazy()
        .select("kind", "name", "start_ns", "dur_ns", *THREAD)
        .filter((pl.col("kind") == "annotation") & pl.col("dur_ns").is_not_null())
        .drop("kind")
        .collect()
    )
    # Ranges with these names are operators, not sections of the program.
    names = [n for n in table["name"].unique().drop_nulls().to_list() if "::" not in n]
    short = {name: section_name(name) for name in names}
    section = (
        table["name"].cast(pl.String).replace_strict(short, default=None, return_dtype=pl.String)
    )
    table = table.with_columns(section.alias("section")).filter(pl.col("section").is_not_null())
    longest = (
        table.group_by("section").agg(pl.col("dur_ns").sum()).sort("dur_ns", descending=True)
    )["section"].to_list()
    rest = dict.fromkeys(longest[MOST_SECTIONS:], OTHER_SECTIONS)
    return table.with_columns(pl.col("section").replace(rest))


def section_times(
    events: pl.DataFrame,
    sections: pl.DataFrame,
    main: tuple[object, ...] | None,
    edges: Int64s,
) -> list[Section]:
    """Time of sections on the launching thread, by step."""
    if main is None or sections.is_empty():
        return []
    mine = sections.filter(_on(main)).sort("start_ns")
    if mine.is_empty():
        return []
    size = edges.size - 1
    start = mine["start_ns"].to_numpy()
    end = start + mine["dur_ns"].to_numpy()
    names = mine["section"].to_list()
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    code = np.array([number[name] for name in names])
    within = split(start, end, np.arange(start.size), edges)
    inner = _own_pieces(start, end, edges)
    busy = _op_cover(events, main)
    in_ops = overlap(inner.start, inner.end, busy)
    begun = np.searchsorted(edges, start, side="right") - 1
    counted = (begun >= 0) & (begun < size)
    out = []
    for name, index in number.items():
        mask, own = code[within.owner] == index, code[inner.owner] == index
        starts = begun[counted & (code == index)]
        out.append(
            Section(
                name=name,
                calls=per_step(size, starts, np.ones_like(starts)),
                ns=per_step(size, within.window[mask], (within.end - within.start)[mask]),
                own_ns=per_step(size, inner.window[own], (inner.end - inner.start)[own]),
                op_ns=per_step(size, inner.window[own], in_ops[own]),
            )
        )
    return out


def _own_pieces(start: Int64s, end: Int64s, edges: Int64s) -> Pieces:
    """Time of sections that no section inside them has."""
    parent = nest(start, end)
    points = np.unique(np.concatenate([start, end]))
    inner = np.full(points.size - 1, -1, dtype=np.int64)
    # Sections come before those inside them, so that the innermost one is written last.
    depth = np.zeros(start.size, dtype=np.int64)
    for index, outer in enumerate(parent.tolist()):
        depth[index] = 0 if outer < 0 else depth[outer] + 1
    for index in np.argsort(depth, kind="stable").tolist():
        low, high = np.searchsorted(points, [start[index], end[index]])
        inner[low:high] = index
    covered = inner >= 0
    return split(points[:-1][covered], points[1:][covered], inner[covered], edges)


def _op_cover(events: pl.DataFrame, main: tuple[object, ...]) -> Intervals:
    """When the thread was inside an operator or a runtime call."""
    wanted = pl.col("kind").is_in(["cpu_op", *LAUNCH_KINDS]) & pl.col("dur_ns").is_not_null()
    ops = events.filter(wanted & _on(main)).select("start_ns", "dur_ns")
    start = ops["start_ns"].to_numpy()
    return union(start, start + ops["dur_ns"].to_numpy())


def call_kind(name: str) -> str:
    """Kind of a runtime or driver call."""
    return next((kind for kind, pattern in _CALLS if pattern.search(name)), "other")


def calls_by_kind(calls: pl.DataFrame, edges: Int64s) -> list[HostCalls]:
    """Runtime calls by kind and step, of all threads."""
    size = edges.size - 1
    names = calls["name"].unique().drop_nulls().to_list()
    kinds = {name: call_kind(name) for name in names}
    window = np.searchsorted(edges, calls["start_ns"].to_numpy(), side="right") - 1
    table = calls.select("dur_ns").with_columns(
        calls["name"]
        .cast(pl.String)
        .replace_strict(kinds, default="other", return_dtype=pl.String)
        .alias("kind"),
        pl.Series("at", window),
    )
    table = table.filter((pl.col("at") >= 0) & (pl.col("at") < size))
    return [
        HostCalls(
            kind=of_kind["kind"][0],
            calls=per_step(size, of_kind["at"].to_numpy(), np.ones(of_kind.height, np.int64)),
            ns=per_step(size, of_kind["at"].to_numpy(), of_kind["dur_ns"].to_numpy()),
        )
        for of_kind in table.sort("kind").partition_by("kind", maintain_order=True)
    ]


def host_ops(
    events: pl.DataFrame,
    activities: pl.DataFrame,
    main: tuple[object, ...] | None,
    edges: Int64s,
) -> list[HostOp]:
    """Time per call of what the launching thread calls most, and shapes of what launches work."""
    if main is None:
        return []
    wanted = (
        pl.col("kind").is_in(["cpu_op", *LAUNCH_KINDS])
        & pl.col("dur_ns").is_not_null()
        & pl.col("start_ns").is_between(int(edges[0]), int(edges[-1]))
    )
    ops = events.filter(wanted & _on(main)).select(pl.col("name").cast(pl.String), "dur_ns")
    times = (
        ops.group_by("name")
        .agg(
            pl.len().alias("calls"),
            pl.col("dur_ns").median().alias("p50"),
            pl.col("dur_ns").mean().alias("mean"),
            pl.col("dur_ns").quantile(0.99).alias("p99"),
            pl.col("dur_ns").sum().alias("total"),
        )
        .sort("total", "name", descending=[True, False])
        .head(MOST_OPS)
    )
    shapes = _shapes(events, activities)
    return [
        HostOp(name, calls, int(p50), int(mean), int(p99), shapes.get(name, {}))
        for name, calls, p50, mean, p99, _ in times.iter_rows()
    ]


def _shapes(events: pl.DataFrame, activities: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Input shapes of operators that launch GPU work, with their number of launches."""
    rows = activities["op_row"].drop_nulls()
    table = events.select(pl.col("name").cast(pl.String), pl.col("input_dims").cast(pl.String))[
        rows
    ]
    seen_in_order = table.drop_nulls().group_by("name", "input_dims", maintain_order=True).len()
    counts = seen_in_order.sort("len", descending=True, maintain_order=True)
    shapes: dict[str, dict[str, int]] = {}
    for name, dims, count in counts.iter_rows():
        seen = shapes.setdefault(name, {})
        if len(seen) < MOST_SHAPES:
            seen[dims[:120]] = count
    return shapes
