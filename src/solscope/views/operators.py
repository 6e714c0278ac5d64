"""How far each operator is from the speed of light: cost, bound and score by operator and shape.

All figures of a row are means per call, so that time, FLOP, bytes and bound belong together; shares
are of all GPU activity time, and with the rows without a cost they sum to 100 %.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.hardware import (
    Hardware,
    find,
    match_device,
    merge,
    names,
    share_of,
    with_measured,
)
from solscope.roofline import Bound, BoundKind, bound, operator_bound
from solscope.roofline.operators import check_kind
from solscope.views.costs import CallKind, CallTable, find_calls, replays_graphs
from solscope.views.percent import percent_of

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

OperatorsBy = Literal["shape", "operator"]
MEMORIES = ("hbm", "l2", "llc")
"""Memory terms of a bound."""


class OperatorRow(msgspec.Struct, frozen=True):
    """Calls of one operator with one set of axes, or of one operator; figures per call."""

    op: str
    """Operator as recorded; `memcpy` or `memset` for what no operator made; the role where the axes
    come from a config."""
    operator: str
    """Entry of the catalog."""
    category: str
    axes: dict[str, Any] | None
    """What determines the cost; null for a row over several."""
    calls: int
    inferred_calls: int
    """Calls whose inputs come from the same kernel sequence elsewhere in the profile. By shape they
    have rows of their own."""
    pct: float
    """Share of all GPU activity time."""
    total_us: float
    time_us: float
    flop: float
    bytes: float
    intensity: float | None
    """FLOP per byte."""
    tflops: float | None
    """Achieved, 10^12 FLOP/s; null without FLOP."""
    tbps: float | None
    """Achieved, 10^12 byte/s of the bytes that must move; null without bytes."""
    bound_us: float | None
    """Least time on this hardware; null when the hardware is not known, or no figure of it applies.
    A term in `missing` is left out, so that the bound may be far below what can be reached."""
    limiter: str | None
    """Term of the bound that sets most of it."""
    missing: list[str]
    """Terms that the hardware file has no figure for."""
    efficiency_pct: float | None
    """S = bound / time."""
    best_pct: float | None
    """S of the fastest call."""
    expected_us: float | None
    """Bound with uniform routing, where the bound assumes the luckiest; else null."""
    expected_pct: float | None
    """Expected / time; null where no other time is expected than the bound."""
    hbm_us: float | None
    """Time of the bytes, of the expected ones where these differ, if all move through HBM. More
    than the bound where a cache may hold them; null when the bandwidth is not known."""
    hbm_pct: float | None
    """That / time; above 100 where caches did hold them."""
    source: str | None
    """Where the axes come from when not from inputs alone: a model's config, or the lengths of the
    requests that the step states."""


class NoCost(msgspec.Struct, frozen=True):
    """Time without a cost, for one operator or kernel category and one reason."""

    op: str
    reason: str
    calls: int
    total_us: float
    pct: float


class OperatorTable(msgspec.Struct, frozen=True):
    """All calls of a profile against the speed of light."""

    profile: str
    hardware: str | None
    """Name of the hardware file; null when the profile's device has none."""
    by: OperatorsBy
    bound: BoundKind
    """`published` takes the formulas of the public suite, which kernels can beat in places."""
    total_us: float
    cost_pct: float | None
    """Share of GPU time whose FLOP and bytes are known; null when nothing ran."""
    operators: list[OperatorRow]
    no_cost: list[NoCost]
    graph_replays: bool = False
    """Whether graphs were replayed, whose kernels have no recorded shapes."""
    no_hardware: str | None = None
    """Why the hardware is not known, and what to do about it; null where it is."""


def operator_table(
    attributed: Attributed,
    hardware: Hardware | None = None,
    by: OperatorsBy = "shape",
    model: Model | None = None,
    *,
    bound: BoundKind = "corrected",
) -> OperatorTable:
    """Cost, bound and score; `hardware` is that of the profile's device unless given.

    `model` gives axes to kernels without recorded shapes whose role is known.
    """
    check_kind(bound)
    if by not in ("shape", "operator"):
        raise UsageError(f"operators can be listed by shape or operator, not by {by!r}")
    card = hardware or hardware_of(attributed)
    return operators_of_calls(attributed, find_calls(attributed, model), card, by, bound)


def operators_of_calls(
    attributed: Attributed,
    table: CallTable,
    card: Hardware | None,
    by: OperatorsBy = "shape",
    bound: BoundKind = "corrected",
) -> OperatorTable:
    """`operator_table` of calls that were found before."""
    total = int(table.calls["time_ns"].sum())
    per_kind = _per_kind(table.calls)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for kind_index, kind in enumerate(table.kinds):
        groups[_key(kind, by)].append(kind_index)
    limit = _Limiter(card, bound)
    rows = [_row(table, per_kind, kinds, limit, by, total) for kinds in groups.values()]
    costed = sorted((r for r in rows if isinstance(r, OperatorRow)), key=lambda r: -r.total_us)
    # In whole ns: sums of rounded numbers can be more than all there is.
    known_ns = sum(
        per_kind[kind_index].time_ns
        for kind_index, k in enumerate(table.kinds)
        if k.operator is not None
    )
    return OperatorTable(
        profile=attributed.profile.path,
        hardware=None if card is None else card.name,
        no_hardware=no_hardware(attributed) if card is None else None,
        by=by,
        bound=bound,
        total_us=total / 1e3,
        cost_pct=percent_of(known_ns, total),
        operators=costed,
        no_cost=sorted((r for r in rows if isinstance(r, NoCost)), key=lambda r: -r.total_us),
        graph_replays=replays_graphs(attributed),
    )


def hardware_of(attributed: Attributed) -> Hardware | None:
    """The GPU that the profile ran on, by the vendor's figures.

    A figure that the vendor does not state comes from a measured file, where there is one.
    Null when no file fits, or when the profile has devices of different kinds.
    """
    cards = {
        None if card is None else card.name: card
        for card in (
            match_device(d.name, d.compute_units, d.memory_bytes, d.arch)
            for d in attributed.profile.metadata.devices
        )
    }
    card = next(iter(cards.values())) if len(cards) == 1 else None
    return None if card is None else with_measured(card)


def no_hardware(attributed: Attributed) -> str:
    """Why `hardware_of` has no answer, and what to do about it."""
    for device in attributed.profile.metadata.devices:
        whole = share_of(device.name, device.compute_units)
        if whole is not None:
            return (
                f"the GPU is a share of an {whole.name} ({device.compute_units} of its "
                f"{whole.value('sm.count'):.0f} multiprocessors), and what a share can do is not "
                "known; give a hardware file of it with --hardware"
            )
    return "the GPU is not known; name it with --hardware"


def named_hardware(name: str) -> Hardware:
    """The GPU of that name, or a hardware file; gaps filled as in `hardware_of`.

    A measured file takes from the vendor what was not measured, and is called `NAME.measured`:
    what it gives can be beaten.
    """
    card = find(name)
    if not card.measured:
        return with_measured(card)
    filled = merge(card, find(card.name)) if card.name in names() else card
    return msgspec.structs.replace(filled, name=f"{card.name}.measured")


def _key(kind: CallKind, by: OperatorsBy) -> tuple[str, ...]:
    name = call_name(kind)
    if kind.operator is None:
        return (name, "", kind.reason or "")
    axes = msgspec.json.encode(kind.axes, order="sorted").decode() if by == "shape" else ""
    return (name, kind.operator, axes, origin(kind) if by == "shape" else kind.source or "")


def origin(kind: CallKind) -> str:
    """Where the axes come from; empty for recorded inputs."""
    return kind.source or ("inferred" if kind.inferred else "")


def call_name(kind: CallKind) -> str:
    """The operator as recorded, or what else the kernel is known as."""
    return kind.op or (kind.category if kind.cost is not None else f"{kind.category} kernels")


class _Sum(msgspec.Struct, frozen=True):
    """Calls of one kind, added up."""

    calls: int
    inferred: int
    time_ns: int
    fastest_ns: int


def _per_kind(calls: pl.DataFrame) -> dict[int, _Sum]:
    grouped = calls.group_by("kind", maintain_order=True).agg(
        pl.len(),
        pl.col("inferred").sum(),
        pl.col("time_ns").sum(),
        pl.col("time_ns").min().alias("m"),
    )
    return {kind: _Sum(*rest) for kind, *rest in grouped.iter_rows()}


def _row(
    table: CallTable,
    sums: dict[int, _Sum],
    kind_indices: list[int],
    limiter: _Limiter,
    by: OperatorsBy,
    total_ns: int,
) -> OperatorRow | NoCost:
    """One group of kinds that share a name and catalog entry, or a reason."""
    kind = table.kinds[kind_indices[0]]
    calls = sum(sums[k].calls for k in kind_indices)
    time_us = sum(sums[k].time_ns for k in kind_indices) / 1e3
    pct = 100e3 * time_us / total_ns if total_ns else 0.0
    if kind.operator is None:
        return NoCost(call_name(kind), kind.reason or "", calls, time_us, pct)
    flop = sum(_cost(table, k).flop * sums[k].calls for k in kind_indices)
    size = sum(_cost(table, k).bytes * sums[k].calls for k in kind_indices)
    limits = limiter.limits(table, sums, kind_indices)
    return OperatorRow(
        op=call_name(kind),
        operator=kind.operator,
        category=kind.category,
        axes=kind.axes if by == "shape" else None,
        calls=calls,
        inferred_calls=sum(sums[k].inferred for k in kind_indices),
        pct=pct,
        total_us=time_us,
        time_us=time_us / calls,
        flop=flop / calls,
        bytes=size / calls,
        intensity=flop / size if size else None,
        tflops=flop / time_us / 1e6 if flop and time_us else None,
        tbps=size / time_us / 1e6 if size and time_us else None,
        bound_us=None if limits.bound_us is None else limits.bound_us / calls,
        limiter=limits.limiter,
        missing=limits.missing,
        efficiency_pct=percent_of(limits.bound_us, time_us),
        best_pct=limits.best_pct,
        expected_us=None if limits.expected_us is None else limits.expected_us / calls,
        expected_pct=percent_of(limits.expected_us, time_us),
        hbm_us=None if limits.hbm_us is None else limits.hbm_us / calls,
        hbm_pct=percent_of(limits.hbm_us, time_us),
        source=kind.source,
    )


def _cost(table: CallTable, kind: int) -> Any:
    return table.kinds[kind].cost


class _Limits(msgspec.Struct, frozen=True):
    """Bounds of a group, summed over its calls."""

    bound_us: float | None = None
    limiter: str | None = None
    missing: list[str] = []
    best_pct: float | None = None
    expected_us: float | None = None
    hbm_us: float | None = None


class _Limiter(msgspec.Struct, frozen=True):
    """How bounds are computed."""

    card: Hardware | None
    kind: BoundKind

    def bound(self, call: CallKind, card: Hardware) -> Bound:
        return operator_bound(str(call.operator), call.axes, card, self.kind)

    def limits(self, table: CallTable, sums: dict[int, _Sum], kind_indices: list[int]) -> _Limits:
        """Null figures where the hardware is not known or has no figure that applies."""
        card = self.card
        if card is None:
            return _Limits()
        bounds = {k: self.bound(table.kinds[k], card) for k in kind_indices}
        bounded = {k: b.time_us for k, b in bounds.items() if b.time_us is not None}
        missing = sorted({term for b in bounds.values() for term in b.missing})
        hbm_us = _from_hbm([(table.kinds[k], sums[k].calls) for k in kind_indices], card)
        if len(bounded) < len(kind_indices):
            return _Limits(missing=missing, hbm_us=hbm_us)
        by_term: dict[str, float] = defaultdict(float)
        for k, time in bounded.items():
            by_term[str(bounds[k].limiter)] += time * sums[k].calls
        best = [percent_of(time, sums[k].fastest_ns / 1e3) for k, time in bounded.items()]
        likely = [_likely(table.kinds[k], bounds[k], card) for k in kind_indices]
        return _Limits(
            bound_us=sum(by_term.values()),
            limiter=max(by_term, key=lambda term: by_term[term]),
            missing=missing,
            best_pct=max((b for b in best if b is not None), default=None),
            expected_us=_weighted(likely, [sums[k].calls for k in kind_indices]),
            hbm_us=hbm_us,
        )


def _from_hbm(calls: list[tuple[CallKind, int]], card: Hardware) -> float | None:
    """Time of all bytes at the bandwidth of HBM; null where there are none."""
    rate = card.value("hbm.bandwidth")
    costs = [(kind.expected or kind.cost, count) for kind, count in calls]
    size = sum(cost.bytes * count for cost, count in costs if cost is not None)
    return size / rate * 1e6 if rate and size else None


def _likely(kind: CallKind, least: Bound, card: Hardware) -> tuple[float | None, bool]:
    """Time of the likely cost, and whether it differs from the bound's."""
    if kind.expected is None:
        return least.time_us, False
    return bound(kind.expected, card).time_us, True


def _weighted(times: list[tuple[float | None, bool]], calls: list[int]) -> float | None:
    if not any(differs for _, differs in times):
        return None
    return sum((time or 0.0) * count for (time, _), count in zip(times, calls, strict=True))
