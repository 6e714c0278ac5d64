"""The step that a prediction starts from: its calls, its GPU time, and what the host takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.graphs import replayed
from solscope.attribution.usual_steps import StepBasis
from solscope.errors import InputError
from solscope.events import THREAD
from solscope.hardware import Hardware
from solscope.intervals import overlap, union
from solscope.operators.from_config import Model
from solscope.views.costs import CallKind, CallTable, find_calls
from solscope.views.hotspots.fusion import tiny_runs
from solscope.views.hotspots.window import Window, step_window
from solscope.views.idle import SYNC_CALL, host_calls
from solscope.views.operators import call_name, hardware_of, no_hardware

QUEUED_GAP_US = 1.0
"""Gap between two kernels of a queue that never runs empty, where the GPU has no measured one."""

ATTENTION = (
    "dot_product_attention",
    "unified_attention",
    "paged_attention_decode",
    "mla_decode_attention",
)
"""Operators whose axes tell requests and keys."""


@dataclass(frozen=True)
class Line:
    """Equal calls of a usual step."""

    kind: CallKind
    name: str
    role: str | None
    calls: float
    """Per step."""
    time_us: float
    """Of one call."""
    kernels: float
    """Kernels of one call."""
    fused_us: float
    """Time per step that fusing runs of tiny kernels would save of these calls."""


@dataclass(frozen=True)
class RecordedStep:
    """A usual step."""

    profile: str
    card: Hardware
    phase: str | None
    basis: StepBasis
    wall_us: float
    busy_us: float
    between_us: float
    """Idle time from the last activity of a step to the first of the next."""
    gaps_us: float
    """Other idle time."""
    host_us: float
    """What the host takes without waiting for the GPU; 0 where graphs hide it."""
    replayed: bool
    """Whether most kernels come from a graph."""
    kernels: float
    batch: int | None
    context: float | None
    ranks: int
    layers: float
    """Layers of a step; 0 where none were found."""
    overlapped: float
    """Time of all calls over busy time: above 1 where kernels run at once."""
    lines: list[Line]


def recorded_step(
    attributed: Attributed, model: Model | None, card: Hardware | None
) -> RecordedStep:
    """The usual step of the phase that takes most time."""
    path = attributed.profile.path
    card = card or hardware_of(attributed)
    window = step_window(attributed)
    usual = window.typical
    if usual is None:
        raise InputError(f"{path}: nothing ran on a GPU, so there is nothing to predict")
    if card is None:
        raise InputError(f"{path}: {no_hardware(attributed)}")
    table = find_calls(attributed, model)
    calls = window.of(table.calls)
    lines = _lines(calls, table, window)
    replayed = _replayed(attributed, window)
    idle, between = usual.idle.total_ns, sum(usual.idle.between.values())
    time = sum(line.calls * line.time_us for line in lines)
    return RecordedStep(
        profile=path,
        card=card,
        phase=window.phase,
        basis=usual.basis,
        wall_us=usual.wall_ns / 1e3,
        busy_us=usual.busy_ns / 1e3,
        between_us=between / 1e3,
        gaps_us=(idle - between) / 1e3,
        host_us=0.0 if replayed else max(0.0, usual.wall_ns - _waiting(attributed, window)) / 1e3,
        replayed=replayed,
        kernels=usual.kernels,
        batch=_batch(window, lines),
        context=_context(lines),
        ranks=max(1, attributed.profile.metadata.world_size or 1),
        layers=_layers(attributed, window),
        overlapped=max(1.0, time / max(1e-9, usual.busy_ns / 1e3)),
        lines=lines,
    )


def _lines(calls: pl.DataFrame, table: CallTable, window: Window) -> list[Line]:
    steps = window.count
    saved: dict[int, int] = {}
    facts = {c: (k, t) for c, k, t in calls.select("call", "kind", "time_ns").iter_rows()}
    for run in tiny_runs(calls, table):
        slowest = max(run, key=lambda call: facts[call][1])
        for call in run:
            if call != slowest:
                saved[facts[call][0]] = saved.get(facts[call][0], 0) + facts[call][1]
    grouped = calls.group_by("kind", maintain_order=True).agg(
        pl.len(),
        pl.col("time_ns").sum().alias("ns"),
        pl.col("kernels").mean(),
        pl.col("role").drop_nulls().mode().sort().first().cast(pl.String),
    )
    return [
        Line(
            kind=table.kinds[kind],
            name=call_name(table.kinds[kind]),
            role=role,
            calls=count / steps,
            time_us=ns / count / 1e3,
            kernels=kernels,
            fused_us=saved.get(kind, 0) / steps / 1e3,
        )
        for kind, count, ns, kernels, role in grouped.iter_rows()
    ]


def _replayed(attributed: Attributed, window: Window) -> bool:
    rows = window.of(attributed.activities)
    return bool(replayed(attributed.profile.events, rows).sum() * 2 > rows.height)


def _waiting(attributed: Attributed, window: Window) -> float:
    """Nanoseconds per step that the launching thread waits for the GPU."""
    if window.usual is None:
        return 0.0
    calls = host_calls(attributed.profile.events)
    names = calls["name"].cast(pl.String).unique().to_list()
    waiting = [name for name in names if name is not None and SYNC_CALL.search(name)]
    waits = calls.filter(pl.col("name").cast(pl.String).is_in(waiting))
    launches = window.of(attributed.activities).select(pl.col("launch_row").alias("row"))
    threads = launches.join(calls, on="row").group_by(THREAD).len()
    busiest = threads.sort("len", *THREAD, descending=True).head(1)
    own = waits.join(busiest, on=THREAD, nulls_equal=True)
    begin = own["start_ns"].to_numpy()
    # Steps of one process; all others take about as long.
    steps = window.usual.table.filter(pl.col("process") == pl.col("process").min())
    cover = union(begin, begin + own["dur_ns"].to_numpy())
    waited = overlap(steps["start_ns"].to_numpy(), steps["until_ns"].to_numpy(), cover)
    return float(waited.sum()) / steps.height


def _layers(attributed: Attributed, window: Window) -> float:
    """Layers of a step, on one device."""
    rows = window.of(attributed.activities).filter(pl.col("place") == "layer")
    return rows.select("rank", "device", "pass", "layer").n_unique() / window.count


def _batch(window: Window, lines: list[Line]) -> int | None:
    """Requests of a step: as its name states, else rows of attention."""
    if window.usual is not None:
        for name in ("requests", "tokens"):
            stated = window.usual.table[name].median()
            if isinstance(stated, (int, float)):
                return max(1, round(stated))
    batch = _attention(lines, "batch")
    return None if batch is None else max(1, round(batch))


def _context(lines: list[Line]) -> float | None:
    """Keys per request, from the shapes of attention."""
    return _attention(lines, "keys")


def _attention(lines: list[Line], axis: str) -> float | None:
    """The value of an axis, of the attention calls that take most time."""
    weight_of: dict[float, float] = {}
    for line in lines:
        value = _axis(line.kind.axes, axis)
        if line.kind.operator in ATTENTION and value is not None:
            weight_of[value] = weight_of.get(value, 0.0) + line.calls * line.time_us
    return max(weight_of, key=lambda value: weight_of[value]) if weight_of else None


def _axis(axes: dict[str, Any], axis: str) -> float | None:
    if axis in axes:
        return float(axes[axis])
    groups = axes.get("sequences") or axes.get("contexts")
    if not groups:
        return None
    count = sum(group[-1] for group in groups)
    return float(count if axis == "batch" else sum(g[-2] * g[-1] for g in groups) / max(1, count))


def usual_gap_us(card: Hardware) -> float:
    """Gap between kernels of a graph, or of a queue that never runs empty."""
    floor = card.value("graph.floor")
    return QUEUED_GAP_US if floor is None else floor * 1e6
