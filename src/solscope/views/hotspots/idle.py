"""Time in which nothing computes: exposed communication and gaps.

Both are means over the devices of a profile, which work at the same time.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.hardware import Hardware
from solscope.intervals import overlap, union
from solscope.roofline import bound
from solscope.views.core_wait import lacks_core_pct
from solscope.views.costs import CallTable, replays_graphs
from solscope.views.device_time import bounds
from solscope.views.hotspots import advice
from solscope.views.hotspots.base import Hotspot, lost_time, mean_count, take
from solscope.views.hotspots.window import Window
from solscope.views.idle import CAUSES
from solscope.views.typical_step import StepIdle

MANY_GAPS = 20
"""Slow launches make at least this many gaps per step."""
SLOW_LAUNCHES_PCT = 15.0
"""Slow launches are named from this share of a step in short gaps on."""
BETWEEN = 0.05
"""The part of idle time between steps is named from this share of it on."""
UNNAMED = "communication"
"""Communication whose kernel does not say which collective it is."""


class _Comm(msgspec.Struct):
    """Communication of one kind, summed over devices."""

    time_ns: int = 0
    exposed_ns: int = 0
    count: int = 0


class _Least(msgspec.Struct, frozen=True):
    """The bound of all calls of a collective together, and the term that sets it."""

    time_us: float
    limiter: str | None


def exposed_communication(
    attributed: Attributed,
    calls: pl.DataFrame,
    table: CallTable,
    card: Hardware | None,
    window: Window,
) -> list[Hotspot]:
    """Communication by collective: the part that no computation hides."""
    devices = _devices(attributed, window)
    operators = _operators_of(devices, calls, table)
    spent: dict[str, _Comm] = defaultdict(_Comm)
    for device in devices:
        comm = device.filter(pl.col("category") == "comm").sort("start_ns", maintain_order=True)
        other = device.filter(pl.col("category") != "comm")
        start, end = bounds(comm)
        # What two collectives share belongs to the first of them.
        before = np.maximum.accumulate(np.concatenate([start[:1], end]))[:-1]
        first = np.minimum(np.maximum(start, before), np.maximum(end, start))
        alone = np.maximum(end - first, 0)
        exposed = alone - overlap(first, first + alone, union(*bounds(other)))
        rows = comm.select("op_row", pl.col("operator").cast(pl.String)).iter_rows()
        for (row, recorded), time, shown in zip(rows, end - start, exposed, strict=True):
            kind = spent[operators.get(row) or recorded or UNNAMED]
            kind.time_ns, kind.exposed_ns = kind.time_ns + int(time), kind.exposed_ns + int(shown)
            kind.count += 1
    least = _least(calls, table, card)
    return [_comm_row(name, comm, least.get(name), window) for name, comm in spent.items()]


def _operators_of(
    devices: list[pl.DataFrame], calls: pl.DataFrame, table: CallTable
) -> dict[int, str | None]:
    """The operator of each call that communicates."""
    asked = [device.filter(pl.col("category") == "comm")["op_row"] for device in devices]
    rows = {row for asked_rows in asked for row in asked_rows.drop_nulls()}
    chosen = calls.select("call", "kind").filter(pl.col("call").is_in(list(rows)))
    return {call: table.kinds[kind].operator for call, kind in chosen.iter_rows()}


def idle_time(attributed: Attributed, window: Window) -> list[Hotspot]:
    """Gaps between activities by cause, in a step and up to the next one."""
    if window.typical is None:
        return []
    rows = [
        _for_lack_of_a_core(attributed, _idle_row(cause, window.typical.idle, window), window)
        for cause in CAUSES
    ]
    if not replays_graphs(attributed):
        return rows
    # Who replays graphs already needs no advice to use them.
    return [
        msgspec.structs.replace(row, advice=advice.IN_GRAPHS) if row.operator == "launch" else row
        for row in rows
    ]


def _for_lack_of_a_core(attributed: Attributed, row: Hotspot, window: Window) -> Hotspot:
    """Waiting for a host that itself waits for a core."""
    if row.operator != "host":
        return row
    lacking = lacks_core_pct(attributed, window.step_ns, 1e3 * row.time_us)
    if lacking is None:
        return row
    why = (
        f"{row.why}; its main thread is ready to run but has no core for {lacking:.0f} % of the "
        "recording"
    )
    return msgspec.structs.replace(row, advice=advice.NO_CORE, why=why)


def _devices(attributed: Attributed, window: Window) -> list[pl.DataFrame]:
    timed = pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    used = ("rank", "device", "step", "category", "operator", "op_row", "start_ns", "dur_ns")
    rows = window.of(attributed.activities.select(used)).filter(timed)
    return rows.partition_by(["rank", "device"], maintain_order=True)


def _least(calls: pl.DataFrame, table: CallTable, card: Hardware | None) -> dict[str, _Least]:
    """Bounds by collective, where every call of it has one."""
    if card is None:
        return {}
    times: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    counts = calls.group_by("kind", maintain_order=True).agg(pl.len()).iter_rows()
    for kind_index, count in counts:
        kind = table.kinds[kind_index]
        if kind.category == "comm" and kind.cost is not None and kind.operator is not None:
            least = bound(kind.cost, card)
            times[kind.operator][str(least.limiter)] += count * (least.time_us or 0.0)
    return {
        name: _Least(sum(terms.values()), max(terms, key=lambda term: terms[term]))
        for name, terms in times.items()
    }


def _comm_row(name: str, comm: _Comm, least: _Least | None, window: Window) -> Hotspot:
    per_step = comm.count / window.count
    time_us, saved = (window.per_step(ns) for ns in (comm.time_ns, comm.exposed_ns))
    bound_us = None if least is None else window.per_step(1e3 * least.time_us)
    why = (
        f"{mean_count(per_step, 'call')} {take(per_step)} {time_us:,.2f} µs, {saved:,.2f} µs of it "
        "while nothing computes"
    )
    if bound_us is not None:
        why += f"; interconnect bound: {bound_us:,.2f} µs"
    return lost_time(
        "comm",
        name,
        window,
        calls_per_step=per_step,
        time_us=time_us,
        saved_us=saved,
        confidence="low",
        why=why,
        advice=advice.COMM,
        bound_us=bound_us,
        limiter=None if least is None else least.limiter,
    )


def _idle_row(cause: str, idle: StepIdle, window: Window) -> Hotspot:
    time_us, between_us = (times.get(cause, 0.0) / 1e3 for times in (idle.by_cause, idle.between))
    gaps = idle.gaps.get(cause, 0.0)
    why = f"{mean_count(gaps, 'gap') if gaps else 'parts of other gaps'}; {CAUSES[cause]}"
    if between_us >= BETWEEN * time_us > 0:
        why += f"; {between_us:,.2f} µs of it between steps"
    short_pct = window.pct(idle.launching_ns / 1e3)
    # As the verdict has it: fewer launches do not shorten a few long gaps.
    most_short = 2 * idle.launching_ns >= idle.by_cause.get("host", 0.0)
    many_short = gaps >= MANY_GAPS and short_pct >= SLOW_LAUNCHES_PCT
    slow = cause == "host" and many_short and most_short
    return lost_time(
        "idle",
        cause,
        window,
        calls_per_step=gaps,
        time_us=time_us,
        saved_us=time_us,
        confidence="low" if cause == "unlinked" else "medium",
        why=f"{why}; the host launches too slowly" if slow else why,
        advice=advice.SLOW_LAUNCHES if slow else advice.IDLE[cause],
    )
