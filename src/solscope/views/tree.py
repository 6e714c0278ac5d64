"""Where the GPU time goes, as a tree of phases, layers, roles and kernels.

Every node is the sum of its children, to the nanosecond. Unknown time has its own node.
Kernels of a role that hold less than `SMALLEST` of all time are merged into one leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from solscope.arrays import series, take, texts_of
from solscope.attribution import Attributed
from solscope.names import short_name
from solscope.once import once
from solscope.views.device_time import device_times
from solscope.views.idle import CAUSES

SMALLEST = 0.001
"""Share of all GPU time below which kernels of one role are joined."""
OTHERS = "(smaller kernels)"
UNPLACED = "(no step)"
UNKNOWN = "(phase not known)"


class TimeNode(msgspec.Struct, frozen=True):
    """One part of the GPU time."""

    name: str
    kind: str
    """`phase`, `layer`, `role`, `category` or `kernel`, `idle` or `cause`; `all` for the root."""
    category: str | None
    """Of a kernel, or of the largest kernel below."""
    time_ns: int
    calls: int
    children: list[TimeNode] = []


@once
def time_tree(attributed: Attributed, *, layers: bool = False) -> TimeNode:
    """All GPU activities of a profile; the root's time is the profile's GPU time.

    `layers` puts a level of layers between phases and roles; a summary has neither.
    """
    if attributed.profile.is_aggregate:
        levels = ["category", "kernel"]
        table = attributed.aggregates.select(
            pl.col("category").cast(pl.String),
            pl.col("category").cast(pl.String).alias("of"),
            _short(attributed.aggregates["name"]),
            pl.col("total_ns").alias("time_ns"),
            "calls",
        )
    else:
        table = attributed.activities.select(
            _phase().alias("phase"),
            _layer().alias("layer"),
            pl.coalesce(pl.col("role").cast(pl.String), pl.col("category").cast(pl.String)).alias(
                "role"
            ),
            pl.col("category").cast(pl.String).alias("of"),
            _short(attributed.activities["name"]),
            pl.col("dur_ns").fill_null(0).alias("time_ns"),
            pl.lit(1, pl.Int64).alias("calls"),
        )
        levels = ["phase", *(["layer"] if layers else []), "role", "kernel"]
        table = table.with_columns(pl.col("layer").fill_null("(no layer)"))
    sums = (
        table.group_by(*levels, "of", maintain_order=True)
        .agg(pl.col("time_ns", "calls").sum())
        .sort("time_ns", descending=True, maintain_order=True)
    )
    total = int(sums["time_ns"].sum())
    return _node("all", "all", sums, levels, int(total * SMALLEST))


def icicle(attributed: Attributed) -> TimeNode:
    """GPU time by phase, layer, role and kernel, and beside it the idle time by cause.

    A gap belongs to the phase of the activity that ends it. The root's time is the profile's GPU
    time, where activities that overlap count each, and its idle time.
    """
    layered = attributed.activities["layer"].count() > 0
    tree = time_tree(attributed, layers=True) if layered else time_tree(attributed)
    idle = _idle(attributed)
    phases = {node.name: node for node in tree.children}
    for name, rows in idle.items():
        waits = _node("idle", "idle", rows, ["cause"], 0)
        recorded = phases.get(name, TimeNode(name, "phase", None, 0, 0))
        phases[name] = msgspec.structs.replace(
            recorded, time_ns=recorded.time_ns + waits.time_ns, children=[*recorded.children, waits]
        )
    children = sorted(phases.values(), key=_order)
    total = sum(node.time_ns for node in children)
    return msgspec.structs.replace(tree, time_ns=total, children=children)


def _idle(attributed: Attributed) -> dict[str, pl.DataFrame]:
    """Idle nanoseconds by phase: `cause`, `time_ns`, and `calls`, which are gaps."""
    parts = []
    for device in device_times(attributed):
        rows = device.rows.select("start_ns", "phase", "step").sort("start_ns", maintain_order=True)
        ends = np.searchsorted(rows["start_ns"].to_numpy(), device.gaps["end_ns"].to_numpy())
        phase = rows.select(_phase().alias("phase")).to_series()
        ending = phase.gather(series("", np.minimum(ends, rows.height - 1)))
        by_cause = device.gaps.select(*CAUSES, ending).unpivot(
            index="phase", variable_name="cause", value_name="time_ns"
        )
        parts.append(by_cause.filter(pl.col("time_ns") > 0))
    if not parts:
        return {}
    sums = (
        pl.concat(parts)
        .group_by("phase", "cause", maintain_order=True)
        .agg(pl.col("time_ns").sum(), pl.len().cast(pl.Int64).alias("calls"))
        .with_columns(pl.lit(None, pl.String).alias("of"))
    )
    by_phase = sums.partition_by("phase", as_dict=True, maintain_order=True)
    return {str(name): rows for (name,), rows in by_phase.items()}


def _phase() -> pl.Expr:
    unknown = pl.when(pl.col("step").is_null()).then(pl.lit(UNPLACED)).otherwise(pl.lit(UNKNOWN))
    return pl.coalesce(pl.col("phase").cast(pl.String), unknown)


def _layer() -> pl.Expr:
    place = pl.col("place").cast(pl.String)
    number = pl.format("layer {}", pl.col("layer"))
    return pl.when(pl.col("layer").is_not_null()).then(number).otherwise(place)


def _short(names: pl.Series) -> pl.Series:
    texts = texts_of(names)
    short = [short_name("(no name)" if name is None else name) for name in texts.known]
    return take(pl.Series("kernel", short, dtype=pl.Categorical()), series("", texts.codes))


def _node(
    name: str, kind: str, rows: pl.DataFrame, levels: Sequence[str], smallest: int
) -> TimeNode:
    time, calls = int(rows["time_ns"].sum()), int(rows["calls"].sum())
    children: list[TimeNode] = []
    if levels:
        level, *rest = levels
        parts = rows.partition_by(level, maintain_order=True)
        small: list[pl.DataFrame] = []
        for rows_below in parts:
            if level == "kernel" and int(rows_below["time_ns"].sum()) < smallest:
                small.append(rows_below)
                continue
            children.append(_node(str(rows_below[level][0]), level, rows_below, rest, smallest))
        if len(small) == 1:
            children.append(_node(str(small[0][level][0]), level, small[0], rest, smallest))
        elif small:
            children.append(_node(OTHERS, level, pl.concat(small), rest, smallest))
        children.sort(key=_order)
    return TimeNode(name, kind, rows["of"][0] if rows.height else None, time, calls, children)


def _order(node: TimeNode) -> tuple[int, int]:
    """Layers in the order of the model, everything else by time."""
    if node.kind != "layer":
        return (1, -node.time_ns)
    if node.name.startswith("layer "):
        return (1, int(node.name.removeprefix("layer ")))
    return ({"prologue": 0, "epilogue": 2}.get(node.name, 3), -node.time_ns)
