"""MFU, MBU and the speed of light: how much of a GPU's peak a step, phase or layer uses.

* MFU: time that the matrix units need at their peak, sum over dtypes of FLOP / peak, over the time
  of the step. FLOP are those of the operators' costs: what the mathematics needs, no padding.
* MBU: bytes of weights, caches and states, each read or written once per call, over the time of the
  step times the bandwidth of HBM. `hbm_pct` is the memory's part of the bounds: activations as
  well, less the writes that a cache can hold.
* Speed of light: the sum of the bounds of all calls, and that of a step whose calls overlap
  perfectly: the busiest of matrix units, vector units, memory and links.

Means are over the usual steps of a phase, each up to the start of the next one
(`attribution/usual_steps.py`). Experts are counted as uniform routing reaches them.
What has no cost counts as time, and not as work, so that rates are lower bounds: `cost_pct` says
how much of the GPU time has one. Below half of it they are null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis, usual_steps
from solscope.errors import InputError
from solscope.hardware import Hardware
from solscope.operators.cost import Cost
from solscope.roofline import bound
from solscope.views.costs import CallTable, find_calls, replays_graphs
from solscope.views.operators import hardware_of, no_hardware
from solscope.views.percent import percent_of

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

EfficiencyBy = Literal["phase", "step", "layer"]
LEAST_COST_PCT = 50.0
"""With a smaller share of the GPU time costed, rates would say little about the whole: null."""
MODEL_BYTES = ("weights", "cache", "state")
"""Kinds of bytes that MBU counts: what a model reads whatever the kernels are."""


class Rates(msgspec.Struct, frozen=True):
    """One phase, step or kind of layer; work and times are means per step, or per layer."""

    name: str
    count: int
    """Steps, or layers of all steps."""
    time_ms: float
    """Of a step: to the start of the next. Of a layer: the time of its activities."""
    gpu_ms: float
    """Time of the activities."""
    cost_pct: float | None
    """Share of `gpu_ms` whose FLOP and bytes are known, and the GPU's peaks for them."""
    tflop: float | None
    """10^12 FLOP of the matrix units; null, as bytes and rates are, where less than half of
    `gpu_ms` is costed."""
    model_gb: float | None
    """10^9 bytes of weights, caches and states."""
    all_gb: float | None
    """The same with activations."""
    mfu_pct: float | None
    mbu_pct: float | None
    hbm_pct: float | None
    """Of the bounds, what memory takes; at most `sol_pct`."""
    sol_ms: float | None
    """Sum of the bounds."""
    sol_pct: float | None
    """Of `time_ms`."""
    overlap_sol_ms: float | None
    """Bound with perfect overlap of all calls."""
    overlap_sol_pct: float | None
    tokens_per_s: float | None
    """Tokens of a step over its time, per GPU; null where tokens are not recorded."""


class EfficiencyTable(msgspec.Struct, frozen=True):
    """MFU, MBU and the speed of light of a profile."""

    profile: str
    hardware: str
    by: EfficiencyBy
    peaks: dict[str, float]
    """Peaks used: FLOP/s by pipe, `hbm` in byte/s."""
    rows: list[Rates]
    graph_replays: bool
    """Whether graphs were replayed, whose kernels have no recorded shapes."""
    basis: list[StepBasis]
    """The steps that means are over, by phase, and which ones were left out; `by` step lists all
    that are not cut."""


def efficiency(
    attributed: Attributed,
    hardware: Hardware | None = None,
    by: EfficiencyBy = "phase",
    model: Model | None = None,
) -> EfficiencyTable:
    """Rates by phase, step or kind of layer; `hardware` is that of the profile unless given."""
    card = hardware or hardware_of(attributed)
    if card is None:
        path = attributed.profile.path
        raise InputError(f"{path}: {no_hardware(attributed)}")
    return efficiency_of_calls(attributed, find_calls(attributed, model), card, by)


def efficiency_of_calls(
    attributed: Attributed, table: CallTable, card: Hardware, by: EfficiencyBy = "phase"
) -> EfficiencyTable:
    """`efficiency` with calls that are there already."""
    work = [_work(table, kind_index, card) for kind_index in range(len(table.kinds))]
    phases = usual_steps(attributed)
    if not phases:
        raise InputError(f"{attributed.profile.path}: no whole step was found")
    steps = pl.concat([phase.whole if by == "step" else phase.table for phase in phases])
    calls = table.calls.filter(pl.col("step").is_in(steps["step"].implode()))
    if by == "layer":
        rows = _layers(attributed, table, calls, work, card)
    else:
        rows = _by_steps(steps.sort("start_ns", maintain_order=True), calls, work, card, by)
    pipes = sorted({pipe for each in work for pipe in each.flop})
    peaks = {pipe: card.peaks[pipe].value for pipe in pipes if pipe in card.peaks}
    rate = card.value("hbm.bandwidth")
    return EfficiencyTable(
        profile=attributed.profile.path,
        hardware=card.name,
        by=by,
        peaks={**peaks, **({} if rate is None else {"hbm": rate})},
        rows=rows,
        graph_replays=replays_graphs(attributed),
        basis=[phase.basis for phase in phases],
    )


class _Work(msgspec.Struct, frozen=True):
    """What one call of a kind needs."""

    known: bool
    flop: dict[str, float] = {}
    model_bytes: float = 0.0
    all_bytes: float = 0.0
    bound_us: float = 0.0
    terms_us: dict[str, float] = {}


def _work(table: CallTable, kind_index: int, card: Hardware) -> _Work:
    kind = table.kinds[kind_index]
    cost: Cost | None = kind.expected or kind.cost
    if cost is None:
        return _Work(False)
    # Between two uses of a weight a step reads all others, so HBM counts, not a cache.
    least = bound(cost, card, cold=True)
    if any(_unit(term) in ("tensor", "hbm") for term in least.missing):
        return _Work(False)
    kinds = (*cost.read_bytes.items(), *cost.write_bytes.items())
    return _Work(
        known=True,
        flop={pipe: n for pipe, n in cost.flops.items() if pipe.startswith("tensor.")},
        model_bytes=sum(size for name, size in kinds if name in MODEL_BYTES),
        all_bytes=cost.bytes,
        bound_us=least.time_us or 0.0,
        terms_us={_unit(name): time for name, time in least.terms_us.items() if name != "launch"},
    )


def _unit(term: str) -> str:
    return term.partition(".")[0]


def _by_steps(
    steps: pl.DataFrame,
    calls: pl.DataFrame,
    work: list[_Work],
    card: Hardware,
    by: EfficiencyBy,
) -> list[Rates]:
    works = []
    parts = steps.partition_by("phase" if by == "phase" else "step", maintain_order=True)
    for group in parts:
        own = calls.filter(pl.col("step").is_in(group["step"].implode()))
        tokens = group["tokens"]
        stated = None if tokens.null_count() else int(tokens.sum())
        phase = str(group["phase"][0] or "unknown phase")
        name = phase if by == "phase" else f"step {group['step'][0]}, {phase}"
        wall = int(group["wall_ns"].sum())
        devices = _devices(own, group)
        works.append(_rates(name, group.height, wall, _counts(own), work, card, devices, stated))
    return works if by == "step" else sorted(works, key=lambda row: -row.time_ms * row.count)


def _devices(calls: pl.DataFrame, steps: pl.DataFrame) -> int:
    """Devices of a step, each process with its own."""
    own = calls.join(steps.select("step", "process"), on="step")
    per_process = own.group_by("process").agg(pl.struct("rank", "device").n_unique())["rank"]
    return max((int(count) for count in per_process), default=1)


def _counts(calls: pl.DataFrame) -> list[tuple[int, int, int]]:
    """Kind, calls and nanoseconds."""
    grouped = calls.group_by("kind").agg(pl.len(), pl.col("time_ns").sum()).sort("kind")
    return [(kind, count, ns) for kind, count, ns in grouped.iter_rows()]


def _layers(
    attributed: Attributed,
    table: CallTable,
    calls: pl.DataFrame,
    work: list[_Work],
    card: Hardware,
) -> list[Rates]:
    """Rows by kind of layer and phase: the activities of its layers, without gaps."""
    placed = attributed.activities.filter(pl.col("place") == "layer").select(
        "row", "pass", "layer", *(pl.col(n).cast(pl.String) for n in ("layer_kind", "phase"))
    )
    first = table.activities.join(placed, on="row").unique("call", keep="first")
    joined = calls.join(first.drop("row"), on="call")
    if joined.is_empty():
        raise InputError(f"{attributed.profile.path}: no layers were found")
    works = []
    for rows in joined.partition_by(["phase", "layer_kind"], maintain_order=True):
        layers = rows.select("rank", "device", "pass", "layer").n_unique()
        kind = str(rows["layer_kind"][0] or "unknown kind")
        name = f"{rows['phase'][0] or 'unknown phase'}: {kind}"
        time = int(rows["time_ns"].sum())
        works.append(_rates(name, layers, time, _counts(rows), work, card, 1, None))
    return sorted(works, key=lambda row: -row.time_ms * row.count)


def _rates(
    name: str,
    count: int,
    wall_ns: int,
    counts: Iterable[tuple[int, int, int]],
    work: list[_Work],
    card: Hardware,
    devices: int,
    tokens: int | None,
) -> Rates:
    """Sums over calls, as means; of several devices, per device."""
    flop: dict[str, float] = defaultdict(float)
    terms: dict[str, float] = defaultdict(float)
    model = moved = bounds = 0.0
    gpu = costed = 0
    for kind, calls, ns in counts:
        each = work[kind]
        gpu += ns
        costed += ns if each.known else 0
        model += calls * each.model_bytes
        moved += calls * each.all_bytes
        bounds += calls * each.bound_us
        for pipe, amount in each.flop.items():
            flop[pipe] += calls * amount
        for unit, time in each.terms_us.items():
            terms[unit] += calls * time
    share = max(1, count) * devices
    wall_us = wall_ns / 1e3 * devices
    rate = card.value("hbm.bandwidth")
    enough = 100 * costed >= LEAST_COST_PCT * gpu
    busy = sum(n / card.peaks[pipe].value for pipe, n in flop.items()) if enough else None
    rate = rate if enough else None
    least = bounds if enough else None
    overlapped = max(terms.values(), default=0.0) if enough else None
    return Rates(
        name=name,
        count=count,
        time_ms=wall_ns / 1e6 / max(1, count),
        gpu_ms=gpu / 1e6 / share,
        cost_pct=percent_of(costed, gpu),
        tflop=sum(flop.values()) / 1e12 / share if enough else None,
        model_gb=model / 1e9 / share if enough else None,
        all_gb=moved / 1e9 / share if enough else None,
        mfu_pct=None if busy is None else percent_of(1e6 * busy, wall_us),
        mbu_pct=None if rate is None else percent_of(1e6 * model / rate, wall_us),
        hbm_pct=None if rate is None else percent_of(terms["hbm"], wall_us),
        sol_ms=None if least is None else least / 1e3 / share,
        sol_pct=percent_of(least, wall_us),
        overlap_sol_ms=None if overlapped is None else overlapped / 1e3 / share,
        overlap_sol_pct=percent_of(overlapped, wall_us),
        tokens_per_s=None if tokens is None or not wall_ns else 1e9 * tokens / wall_ns / devices,
    )
