"""Operators above their bound. Communication has separate rows (`idle.py`)."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import polars as pl

from solscope.hardware import Hardware
from solscope.operators.base import Cost
from solscope.roofline import Bound, bound
from solscope.roofline.bound import CACHES
from solscope.views.costs import CallKind, CallTable
from solscope.views.hotspots.advice import about_operator
from solscope.views.hotspots.base import Hotspot, mean_count
from solscope.views.hotspots.fusion import TINY_NS
from solscope.views.hotspots.window import Window
from solscope.views.operators import MEMORIES, call_name, origin
from solscope.views.percent import percent_of

OF_LAYERS = {"decode": ("weights", "cache", "state")}
"""Bytes that each layer has of its own and that wait for the next step, by phase; the keys and
values of a prefill were written a moment ago."""
ALWAYS = ("weights",)
FROM_HBM = "time from HBM (the layers of a step exceed the caches)"
NO_FLOOR = "shortest call in the profile (the launch floor is unknown)"


def slow_operators(
    calls: pl.DataFrame,
    table: CallTable,
    card: Hardware | None,
    window: Window,
    target_pct: float,
    streamed: Streamed,
) -> list[Hotspot]:
    """Calls with a bound, by operator, axes, role, and where the axes come from.

    `streamed` says what must come from HBM (`streamed_bytes`).
    """
    if card is None:
        return []
    groups: dict[tuple[str, str, str, str], list[tuple[int, ...]]] = defaultdict(list)
    sums = calls.group_by("kind", pl.col("role").cast(pl.String), maintain_order=True).agg(
        pl.len(), pl.col("time_ns").sum(), pl.col("alone_ns").sum()
    )
    for kind_index, role, *spent in sums.sort("kind", "role").iter_rows():
        kind = table.kinds[kind_index]
        if kind.cost is not None and kind.category != "comm":
            axes = msgspec.json.encode(kind.axes, order="sorted").decode()
            groups[call_name(kind), axes, role or "", origin(kind)].append((kind_index, *spent))
    bounds = {
        kind_index: bound(kind.cost, card)
        for kind_index, kind in enumerate(table.kinds)
        if kind.cost
    }
    shortest = table.calls.filter(pl.col("time_ns") > 0)["time_ns"].min()
    shortest_us = float(shortest) / 1e3 if isinstance(shortest, int) else 0.0
    return [
        _operator(
            table.kinds[parts[0][0]],
            bounds[parts[0][0]],
            _reference(table.kinds[parts[0][0]], bounds[parts[0][0]], card, shortest_us, streamed),
            _Spent(role or None, *(sum(part[column] for part in parts) for column in (1, 2, 3))),
            window,
            target_pct,
        )
        for (_, _, role, _), parts in groups.items()
        if bounds[parts[0][0]].time_us is not None
    ]


class Streamed(msgspec.Struct, frozen=True):
    """What no cache can keep from one step to the next."""

    kinds: tuple[str, ...]
    """Kinds of bytes: weights, cache, state."""
    share: float
    """Share of them that must come from HBM."""

    def bytes(self, cost: Cost | None) -> float:
        return self.share * _read(cost, self.kinds)


def streamed_bytes(
    calls: pl.DataFrame, table: CallTable, card: Hardware | None, window: Window
) -> Streamed:
    """What the calls of a step read of their layers, less what the caches can keep of it.

    Each call is assumed to read its own weights, as the layers of a model do.
    """
    kinds = OF_LAYERS.get(window.phase or "", ALWAYS)
    if card is None or window.usual is None:
        return Streamed(kinds, 0.0)
    counts = calls.group_by("kind", maintain_order=True).len().iter_rows()
    read = sum(count * _read(table.kinds[kind_index].cost, kinds) for kind_index, count in counts)
    per_step = read / window.count
    cache_bytes = max(card.value(f"{cache}.size") or 0.0 for cache in CACHES)
    return Streamed(kinds, max(0.0, 1 - cache_bytes / per_step) if per_step else 0.0)


def _read(cost: Cost | None, kinds: tuple[str, ...]) -> float:
    return 0.0 if cost is None else sum(cost.read_bytes.get(kind, 0.0) for kind in kinds)


class _Spent(msgspec.Struct, frozen=True):
    role: str | None
    calls: int
    time_ns: int
    alone_ns: int
    """The part in which nothing else runs."""


class _Reference(msgspec.Struct, frozen=True):
    """The time that a call is compared with."""

    time_us: float
    name: str
    expected_us: float | None
    sure: bool
    limiter: str | None
    """What sets this time."""


def _reference(
    kind: CallKind, least: Bound, card: Hardware, shortest_us: float, streamed: Streamed
) -> _Reference:
    """The bound; or more, where the bound is known to be too low to reach.

    That is the likely time; the time from HBM of weights that fit in a cache, but not together with
    those of all other layers; the time from HBM, which a kernel can reach whose data may lie in a
    cache of unknown speed; and the shortest call of the profile, where no launch floor is known.
    """
    likely = least if kind.expected is None else bound(kind.expected, card)
    cost, expected = kind.expected or kind.cost, kind.expected is not None
    rate = card.value("hbm.bandwidth")
    unknown = next((term for term in likely.missing if term in MEMORIES), None)
    times = {"bound": least.time_us or 0.0}
    if expected:
        times["expected time"] = likely.time_us or 0.0
    if rate is not None:
        times[FROM_HBM] = streamed.bytes(cost) / rate * 1e6
    if unknown is not None and rate is not None and cost is not None:
        name = f"time from HBM (the {unknown} bandwidth is unknown)"
        times[name] = cost.bytes / rate * 1e6
    if "launch" in least.missing:
        times[NO_FLOOR] = shortest_us
    name = max(times, key=lambda name: times[name])
    # One empty kernel takes as long as the launch floor: nothing that works gets near it.
    sure = not expected and name in ("bound", FROM_HBM) and least.limiter != "launch"
    limiter = {"bound": least.limiter, "expected time": likely.limiter, NO_FLOOR: "launch"}
    return _Reference(
        times[name], name, likely.time_us if expected else None, sure, limiter.get(name, "hbm")
    )


def _operator(
    kind: CallKind,
    least: Bound,
    reference: _Reference,
    spent: _Spent,
    window: Window,
    target_pct: float,
) -> Hotspot:
    per_step = spent.calls / window.count
    time_us = window.per_step(spent.time_ns)
    bound_us = (least.time_us or 0.0) * per_step
    goal = reference.time_us * per_step * 100 / target_pct
    above = max(0.0, time_us - goal)
    saved = min(above, window.per_step(spent.alone_ns))
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
        efficiency_pct=percent_of(bound_us, time_us),
        recoverable_us=saved,
        recoverable_pct_of_step=window.pct(saved),
        confidence="high" if reference.sure and not (kind.inferred or kind.source) else "medium",
        why=(
            f"{mean_count(per_step, 'call')} x {time_us / per_step:,.2f} µs; {reference.name}: "
            f"{reference.time_us:,.2f} µs per call{_too_low(least, reference)}, or "
            f"{goal / per_step:,.2f} µs at {target_pct:.4g} %"
            + (f"; axes {kind.source}" if kind.source else "")
            + (f"; other work runs beside all but {saved:,.2f} µs of it" if saved < above else "")
        ),
        advice=about_operator(reference.limiter, tiny=1e3 * time_us < TINY_NS * per_step),
    )


def _too_low(least: Bound, reference: _Reference) -> str:
    """The bound, which the table has, beside the time that the saving is counted from."""
    if reference.name == "bound":
        return ""
    return f" (the bound of {least.time_us or 0.0:,.2f} µs is too low to reach)"
