"""The caching allocator of a GPU: peak, what is reserved and not used, what allocates in steps.

*Fragmentation* is the part of the reserved memory that holds no tensor, at the time of the peak: an
allocation can fail while that much is free. An allocation belongs to the outermost operator that
its thread was in, and to the step whose first launch is the last before it.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import WHOLE, StepBasis, usual_numbers, usual_steps
from solscope.errors import InputError
from solscope.intervals import nest
from solscope.views.kv_cache import KvCacheUse, kv_cache_use
from solscope.views.percent import percent_of

OUTSIDE = "(outside)"
"""Allocated in no operator."""


class Allocating(msgspec.Struct, frozen=True):
    """Allocations of one operator."""

    op: str
    calls: int
    """Allocations; those of usual steps only, where there are steps."""
    bytes: int
    pct: float | None
    """Of all bytes allocated so."""


class MemoryTable(msgspec.Struct, frozen=True):
    """The allocator of one GPU."""

    profile: str
    device: int
    events: int
    first_bytes: int
    """Allocated at the first event."""
    peak_bytes: int
    last_bytes: int
    reserved_bytes: int
    """Reserved from the driver at the peak."""
    fragmentation_pct: float | None
    """Reserved and not allocated, at the peak."""
    peak_op: str
    """Outermost operator of the allocation that reached the peak."""
    peak_step: int | None
    steps: int
    """Usual steps that the numbers per step are means over; 0 without any."""
    basis: list[StepBasis]
    """These steps, by phase, and which ones were left out."""
    allocations_per_step: float | None
    allocated_per_step: float | None
    """Bytes taken in a step, given back or not; mean."""
    growth_per_step: float | None
    """Bytes that a step keeps; mean. Above 0 in every step, memory leaks or a cache grows."""
    operators: list[Allocating]
    """Most bytes first."""
    kv_cache: KvCacheUse | None
    """Use of the engine's KV cache; null where no metric of it was sampled during the recording."""


def memory_table(attributed: Attributed, allocations: pl.DataFrame) -> list[MemoryTable]:
    """One table per GPU with events of its allocator."""
    if allocations.is_empty():
        raise InputError(
            f"{attributed.profile.path}: no events of the allocator; record with "
            "torch.profiler.profile(profile_memory=True)"
        )
    rows = allocations.with_columns(
        pl.Series("op", _operators(attributed, allocations), dtype=pl.String),
        pl.Series("step", _steps(attributed, allocations), dtype=pl.Int64),
    )
    parts = rows.partition_by("device", maintain_order=True)
    return [
        _table(attributed, of_device) for of_device in sorted(parts, key=lambda p: p["device"][0])
    ]


def _table(attributed: Attributed, rows: pl.DataFrame) -> MemoryTable:
    peak_row = int(rows["allocated"].arg_max() or 0)
    peak = rows.row(peak_row, named=True)
    basis = [phase.basis for phase in usual_steps(attributed) if phase.is_step]
    in_steps = rows.filter(pl.col("step").is_in(usual_numbers(attributed) if basis else []))
    steps = sum(phase.steps for phase in basis)
    taken = (in_steps if steps else rows).filter(pl.col("bytes") > 0)
    total = int(taken["bytes"].sum())
    grouped = taken.group_by("op").agg(pl.len(), pl.col("bytes").sum())
    return MemoryTable(
        profile=attributed.profile.path,
        device=int(rows["device"][0]),
        events=rows.height,
        first_bytes=int(rows["allocated"][0]),
        peak_bytes=int(peak["allocated"]),
        last_bytes=int(rows["allocated"][-1]),
        reserved_bytes=int(peak["reserved"]),
        fragmentation_pct=percent_of(peak["reserved"] - peak["allocated"], peak["reserved"]),
        peak_op=str(peak["op"]),
        peak_step=peak["step"],
        steps=steps,
        basis=basis,
        allocations_per_step=taken.height / steps if steps else None,
        allocated_per_step=total / steps if steps else None,
        growth_per_step=int(in_steps["bytes"].sum()) / steps if steps else None,
        operators=[
            Allocating(op, calls, size, percent_of(size, total))
            for op, calls, size in grouped.sort("bytes", "op", descending=[True, False]).iter_rows()
        ],
        kv_cache=kv_cache_use(attributed),
    )


def _operators(attributed: Attributed, allocations: pl.DataFrame) -> list[str]:
    """The outermost operator that the allocating thread was in."""
    operators = [OUTSIDE] * allocations.height
    ops = attributed.profile.events.filter(
        (pl.col("kind") == "cpu_op")
        & pl.col("start_ns").is_not_null()
        & pl.col("dur_ns").is_not_null()
    ).sort("start_ns", maintain_order=True)
    placed = allocations.with_row_index("at")
    for (tid,), of_thread in placed.partition_by(["tid"], as_dict=True).items():
        own = ops.filter(pl.col("tid").eq_missing(pl.lit(tid, pl.Int64)))
        start = own["start_ns"].to_numpy()
        end = start + own["dur_ns"].to_numpy()
        outer = nest(start, end) < 0
        start, end = start[outer], end[outer]
        names = own["name"].cast(pl.String).filter(pl.Series(outer)).to_list()
        when = of_thread["start_ns"].to_numpy()
        index = np.searchsorted(start, when, side="right") - 1
        for row, which, moment in zip(of_thread["at"], index.tolist(), when.tolist(), strict=True):
            if which >= 0 and moment <= end[which]:
                operators[row] = names[which]
    return operators


def _steps(attributed: Attributed, allocations: pl.DataFrame) -> list[int | None]:
    """The step whose first launch is the last before an allocation; null before the first."""
    rows = attributed.activities.filter(pl.col("step").is_not_null())
    of_first = attributed.steps.filter((pl.col("found_by") != WHOLE) & (pl.col("process") == 0))
    called = attributed.profile.events["start_ns"].gather(rows["launch_row"])
    begun = (
        rows.select("step", called.alias("called"))
        .filter(pl.col("step").is_in(of_first["step"].implode()))
        .group_by("step")
        .agg(pl.col("called").min())
        .drop_nulls()
        .sort("called")
    )
    if begun.is_empty():
        return [None] * allocations.height
    index = np.searchsorted(begun["called"].to_numpy(), allocations["start_ns"].to_numpy()) - 1
    numbers = begun["step"].to_list()
    return [numbers[index] if index >= 0 else None for index in index.tolist()]
