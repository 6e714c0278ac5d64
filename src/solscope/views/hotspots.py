"""What to fix first: all that a step could do without, ranked by the time it would give back.

Times are means per step, over the whole steps of the phase that takes most time. Four kinds of rows
share no time with one another:

* operator: calls of one operator with one set of axes in one role, against their bound. Saved is
  what lies above bound / target.
* fusion: runs of at least `SHORTEST_RUN` tiny calls on one stream. Saved is all but the slowest of
  them: one kernel that takes as long.
* comm: communication that no computation hides.
* idle: gaps between the activities of a step, by cause.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.hardware import Hardware
from solscope.intervals import Int64s, overlap, union
from solscope.operators.from_config import Model
from solscope.roofline import Bound, bound
from solscope.views.costs import CallKind, CallTable, find_calls
from solscope.views.idle import CAUSES, idle_gaps
from solscope.views.operators import MEMORIES, call_name, hardware_of, origin

TARGET_PCT = 80.0
"""Share of its bound that a good kernel reaches; what lies beyond is not counted as recoverable."""
TINY_NS = 10_000
"""Calls shorter than this are candidates for fusion."""
SHORTEST_RUN = 3
FUSIBLE = frozenset(
    ("norm", "activation", "rope", "quant", "softmax", "copy", "elementwise", "reduce", "kv_cache")
)
"""Categories that kernels are commonly fused from."""


class Hotspot(msgspec.Struct, frozen=True):
    """One thing to fix; times are per step."""

    rank: int
    kind: Literal["operator", "fusion", "comm", "idle"]
    operator: str
    """Operator as recorded; the operators of a run; the cause of idle time."""
    role: str | None
    axes: dict[str, Any] | None
    calls_per_step: float
    time_us: float
    bound_us: float | None
    """Least time of these calls; null for what is not an operator."""
    limiter: str | None
    expected_us: float | None
    """The same with uniform routing, where the bound assumes the luckiest; else null."""
    efficiency_pct: float | None
    """Bound / time."""
    recoverable_us: float
    recoverable_pct_of_step: float
    confidence: Literal["high", "medium", "low"]
    why: str
    """The arithmetic."""


class HotspotCoverage(msgspec.Struct, frozen=True):
    """What the ranking rests on."""

    cost_pct: float | None
    """Share of the GPU time of these steps whose FLOP and bytes are known."""


class HotspotTable(msgspec.Struct, frozen=True):
    """The work list of one profile."""

    profile: str
    hardware: str | None
    phase: str | None
    """Phase of the steps; null when it is not known."""
    steps: int
    """Whole steps that the means are over; 0 when none was found: then per profile."""
    step_ms: float
    target_pct: float
    coverage: HotspotCoverage
    hotspots: list[Hotspot]


def hotspots(
    attributed: Attributed,
    hardware: Hardware | None = None,
    target_pct: float = TARGET_PCT,
    model: Model | None = None,
) -> HotspotTable:
    """Rank what could be saved; `hardware` is that of the profile's device unless given.

    `model` gives axes to kernels without recorded shapes whose role is known.
    """
    if not 0 < target_pct <= 100:
        raise UsageError(f"a target is a share of the bound in percent, not {target_pct}")
    card = hardware or hardware_of(attributed)
    window = _window(attributed)
    table = find_calls(attributed, model)
    calls = window.of(table.calls)
    runs = _runs(calls, table)
    alone = calls.filter(~pl.col("call").is_in([c for run in runs for c in run]))
    found = [
        *_operators(alone, table, card, window, target_pct),
        *_fusions(runs, calls, table, window),
        *_gaps(attributed, window),
    ]
    ranked = sorted((h for h in found if h.recoverable_us > 0), key=lambda h: -h.recoverable_us)
    return HotspotTable(
        profile=attributed.profile.path,
        hardware=None if card is None else card.name,
        phase=window.phase,
        steps=window.count,
        step_ms=window.step_ns / 1e6,
        target_pct=target_pct,
        coverage=HotspotCoverage(_cost_pct(calls, table)),
        hotspots=[msgspec.structs.replace(h, rank=at) for at, h in enumerate(ranked, start=1)],
    )


@dataclass(frozen=True)
class _Window:
    """The steps that the means are over."""

    phase: str | None
    count: int
    step_ns: float
    steps: pl.DataFrame
    """`step`, `start_ns`, `end_ns`; empty when no whole step was found."""

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of these steps; all of them when there are none."""
        return (
            rows.filter(pl.col("step").is_in(self.steps["step"].to_list())) if self.count else rows
        )

    def per_step(self, nanoseconds: float) -> float:
        """A sum over all steps as µs per step."""
        return nanoseconds / 1e3 / max(1, self.count)

    def pct(self, time_us: float) -> float:
        return 100e3 * time_us / self.step_ns if self.step_ns else 0.0


def _window(attributed: Attributed) -> _Window:
    first = (pl.col("process") == 0) & ~pl.col("cut") & pl.col("start_ns").is_not_null()
    whole = attributed.steps.filter(first).with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    )
    if whole.is_empty():
        rows = attributed.activities.filter(pl.col("start_ns").is_not_null())
        ends = rows["start_ns"] + rows["dur_ns"].fill_null(0)
        span = (
            0 if rows.is_empty() else int(ends.to_numpy().max() - rows["start_ns"].to_numpy().min())
        )
        return _Window(None, 0, float(span), whole)
    parts = whole.partition_by("phase", maintain_order=True)
    most = max(parts, key=lambda part: int(part["dur_ns"].sum()))
    return _Window(most["phase"][0], most.height, int(most["dur_ns"].sum()) / most.height, most)


def _cost_pct(calls: pl.DataFrame, table: CallTable) -> float | None:
    known = [at for at, kind in enumerate(table.kinds) if kind.cost is not None]
    total = int(calls["time_ns"].sum())
    part = int(calls.filter(pl.col("kind").is_in(known))["time_ns"].sum())
    return 100.0 * part / total if total else None


def _operators(
    calls: pl.DataFrame, table: CallTable, card: Hardware | None, window: _Window, target_pct: float
) -> list[Hotspot]:
    """Calls with a bound, by operator, axes, role, and where the axes come from."""
    if card is None:
        return []
    groups: dict[tuple[str, str, str, str], list[tuple[int, int, int]]] = defaultdict(list)
    sums = calls.group_by("kind", pl.col("role").cast(pl.String)).agg(
        pl.len(), pl.col("time_ns").sum()
    )
    for at, role, count, time in sums.sort("kind", "role").iter_rows():
        kind = table.kinds[at]
        if kind.cost is not None:
            axes = msgspec.json.encode(kind.axes, order="sorted").decode()
            groups[call_name(kind), axes, role or "", origin(kind)].append((at, count, time))
    bounds = {at: bound(kind.cost, card) for at, kind in enumerate(table.kinds) if kind.cost}
    return [
        _operator(
            table.kinds[parts[0][0]],
            bounds[parts[0][0]],
            _reference(table.kinds[parts[0][0]], bounds[parts[0][0]], card),
            _Spent(role or None, sum(p[1] for p in parts), sum(p[2] for p in parts)),
            window,
            target_pct,
        )
        for (_, _, role, _), parts in groups.items()
        if bounds[parts[0][0]].time_us is not None
    ]


@dataclass(frozen=True)
class _Spent:
    role: str | None
    calls: int
    time_ns: int


@dataclass(frozen=True)
class _Reference:
    """What a call is held to."""

    time_us: float
    name: str
    expected_us: float | None = None
    sure: bool = True


def _reference(kind: CallKind, least: Bound, card: Hardware) -> _Reference:
    """The bound; the likely time, or that of HBM, where the bound is known to be too low to reach.

    A kernel whose data may lie in a cache of unknown speed can at least be as fast as from HBM.
    """
    time = least.time_us or 0.0
    likely = None if kind.expected is None else bound(kind.expected, card).time_us
    if likely is not None:
        return _Reference(max(time, likely), "expected time", likely, sure=False)
    rate = card.value("hbm.bandwidth")
    unknown = next((term for term in least.missing if term in MEMORIES), None)
    if unknown is None or rate is None or kind.cost is None:
        return _Reference(time, "bound")
    from_hbm = kind.cost.bytes / rate * 1e6
    name = f"time from HBM (the speed of the {unknown} is not known)"
    return _Reference(time, "bound") if from_hbm <= time else _Reference(from_hbm, name, sure=False)


def _operator(
    kind: CallKind,
    least: Bound,
    reference: _Reference,
    spent: _Spent,
    window: _Window,
    target_pct: float,
) -> Hotspot:
    per_step = spent.calls / max(1, window.count)
    time_us = window.per_step(spent.time_ns)
    bound_us = (least.time_us or 0.0) * per_step
    goal = reference.time_us * per_step * 100 / target_pct
    saved = max(0.0, time_us - goal)
    likely_us = reference.expected_us
    return Hotspot(
        rank=0,
        kind="operator",
        operator=call_name(kind),
        role=spent.role,
        axes=kind.axes,
        calls_per_step=per_step,
        time_us=time_us,
        bound_us=bound_us,
        limiter=least.limiter,
        expected_us=None if likely_us is None else likely_us * per_step,
        efficiency_pct=100 * bound_us / time_us if time_us else None,
        recoverable_us=saved,
        recoverable_pct_of_step=window.pct(saved),
        confidence="high" if reference.sure and not (kind.inferred or kind.source) else "medium",
        why=(
            f"{per_step:.4g} calls x {time_us / per_step:.2f} µs; at {target_pct:.4g} % of the "
            f"{reference.name} of {reference.time_us:.2f} µs a call takes "
            f"{goal / per_step:.2f} µs" + (f"; axes {kind.source}" if kind.source else "")
        ),
    )


def _runs(calls: pl.DataFrame, table: CallTable) -> list[list[int]]:
    """Runs of tiny fusible calls, next to one another on their stream, within one step."""
    fusible = [
        kind.category in FUSIBLE and kind.op is not None and kind.source is None
        for kind in table.kinds
    ]
    runs: list[list[int]] = []
    place = ["rank", "device", "stream", "step"]
    ordered = calls.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    for part in ordered.partition_by(place, maintain_order=True):
        run: list[int] = []
        for call, kind, time in part.select("call", "kind", "time_ns").iter_rows():
            if fusible[kind] and time < TINY_NS:
                run.append(call)
                continue
            runs.append(run)
            run = []
        runs.append(run)
    return [run for run in runs if len(run) >= SHORTEST_RUN]


def _fusions(
    runs: list[list[int]], calls: pl.DataFrame, table: CallTable, window: _Window
) -> list[Hotspot]:
    """Equal runs together: the same operators in the same order."""
    facts = {
        call: (kind, time)
        for call, kind, time in calls.select("call", "kind", "time_ns").iter_rows()
    }
    groups: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    for run in runs:
        names = tuple(call_name(table.kinds[facts[c][0]]) for c in run)
        groups[names].append([facts[c][1] for c in run])
    return [_fusion(names, times, window) for names, times in groups.items()]


def _fusion(names: tuple[str, ...], times: list[list[int]], window: _Window) -> Hotspot:
    total = window.per_step(sum(map(sum, times)))
    kept = window.per_step(sum(map(max, times)))
    runs = len(times) / max(1, window.count)
    return Hotspot(
        rank=0,
        kind="fusion",
        operator=" + ".join(name.removeprefix("aten::") for name in names),
        role=None,
        axes=None,
        calls_per_step=runs * len(names),
        time_us=total,
        bound_us=None,
        limiter="launch",
        expected_us=None,
        efficiency_pct=None,
        recoverable_us=total - kept,
        recoverable_pct_of_step=window.pct(total - kept),
        confidence="medium",
        why=(
            f"{runs:.4g} runs of {len(names)} tiny kernels take {total / runs:.2f} µs each; one "
            f"kernel as long as the slowest of them takes {kept / runs:.2f} µs"
        ),
    )


def _gaps(attributed: Attributed, window: _Window) -> list[Hotspot]:
    """Exposed communication and idle time inside the steps, summed over devices."""
    rows = window.of(attributed.activities).filter(pl.col("dur_ns").is_not_null())
    spent: dict[tuple[str, str], tuple[int, int]] = {}
    devices = rows.partition_by(["rank", "device"], maintain_order=True)
    for part in devices:
        comm, other = part.filter(pl.col("category") == "comm"), pl.col("category") != "comm"
        both = union(*_bounds(comm))
        hidden = overlap(both.start, both.end, union(*_bounds(part.filter(other))))
        _add(spent, ("comm", "exposed communication"), both.length - int(hidden.sum()), comm.height)
        for cause, time, count in _idle(attributed, part, window):
            _add(spent, ("idle", cause), time, count)
    return [
        _gap(kind, name, time / len(devices), count / len(devices), window)
        for (kind, name), (time, count) in spent.items()
    ]


def _add(
    spent: dict[tuple[str, str], tuple[int, int]], key: tuple[str, str], time: int, count: int
) -> None:
    before = spent.get(key, (0, 0))
    spent[key] = (before[0] + time, before[1] + count)


def _bounds(rows: pl.DataFrame) -> tuple[Int64s, Int64s]:
    start = rows["start_ns"].to_numpy()
    return start, start + rows["dur_ns"].to_numpy()


def _idle(
    attributed: Attributed, rows: pl.DataFrame, window: _Window
) -> list[tuple[str, int, int]]:
    """Cause, time and number of the gaps of one device that lie inside a step."""
    gaps = idle_gaps(attributed, rows, union(*_bounds(rows)))
    if window.count:
        steps = window.steps.select("start_ns", pl.col("end_ns").alias("step_end")).sort("start_ns")
        gaps = gaps.sort("start_ns").join_asof(steps, on="start_ns", strategy="backward")
        gaps = gaps.filter(pl.col("end_ns") <= pl.col("step_end"))
    return [
        (cause, int(gaps[cause].sum()), int((gaps["cause"] == cause).sum())) for cause in CAUSES
    ]


def _gap(kind: str, name: str, time_ns: float, count: float, window: _Window) -> Hotspot:
    time_us, per_step = window.per_step(time_ns), count / max(1, window.count)
    comm = kind == "comm"
    why = f"{per_step:.4g} collectives; this part runs while nothing computes"
    return Hotspot(
        rank=0,
        kind="comm" if comm else "idle",
        operator=name,
        role=None,
        axes=None,
        calls_per_step=per_step,
        time_us=time_us,
        bound_us=None,
        limiter=None,
        expected_us=None,
        efficiency_pct=None,
        recoverable_us=time_us,
        recoverable_pct_of_step=window.pct(time_us),
        confidence="low" if comm or name == "unlinked" else "medium",
        why=why if comm else f"{per_step:.4g} gaps; {CAUSES[name]}",
    )
