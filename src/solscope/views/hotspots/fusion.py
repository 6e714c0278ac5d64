"""Runs of tiny kernels that one kernel could do."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from solscope.names import short_name
from solscope.views.costs import CallKind, CallTable
from solscope.views.hotspots.advice import FUSION
from solscope.views.hotspots.base import Hotspot, lost_time, mean_count, take
from solscope.views.hotspots.window import Window

TINY_NS = 10_000
"""Calls shorter than this are candidates for fusion."""
SHORTEST_RUN = 3
"""Calls of a run, at least."""
LONG_RUN = 16
"""One kernel for more than this is rarely written."""
FUSIBLE = frozenset(
    ("norm", "activation", "rope", "quant", "softmax", "copy", "elementwise", "reduce", "kv_cache")
)
"""Categories that kernels are commonly fused from."""


def tiny_runs(calls: pl.DataFrame, table: CallTable) -> list[list[int]]:
    """Runs of tiny fusible calls, next to one another on their stream, within one step."""
    fusible = np.array([kind.category in FUSIBLE for kind in table.kinds], dtype=bool)
    runs: list[list[int]] = []
    place = ["rank", "device", "stream", "step"]
    ordered = calls.filter(pl.col("start_ns").is_not_null()).sort("start_ns", maintain_order=True)
    for stream in ordered.partition_by(place, maintain_order=True):
        call = stream["call"].to_numpy()
        tiny = fusible[stream["kind"].to_numpy()] & (stream["time_ns"].to_numpy() < TINY_NS)
        begins, ends = np.flatnonzero(np.diff(tiny, prepend=False, append=False)).reshape(-1, 2).T
        long = ends - begins >= SHORTEST_RUN
        runs += (call[a:b].tolist() for a, b in zip(begins[long], ends[long], strict=True))
    return runs


def fusions(
    runs: list[list[int]], calls: pl.DataFrame, table: CallTable, window: Window
) -> list[Hotspot]:
    """Equal runs together: the same operators in the same order."""
    chosen = calls.filter(pl.col("call").is_in([call for run in runs for call in run]))
    facts = {
        call: facts
        for call, *facts in chosen.select("call", "kind", "time_ns", "alone_ns").iter_rows()
    }
    groups: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    alone: dict[tuple[str, ...], int] = defaultdict(int)
    for run in runs:
        names = tuple(_name(table.kinds[facts[c][0]]) for c in run)
        groups[names].append([facts[c][1] for c in run])
        alone[names] += sum(facts[c][2] for c in run)
    return [_fusion(names, times, alone[names], window) for names, times in groups.items()]


def _name(kind: CallKind) -> str:
    return short_name(kind.kernel) if kind.op is None else kind.op.removeprefix("aten::")


def _fusion(
    names: tuple[str, ...], times: list[list[int]], alone_ns: int, window: Window
) -> Hotspot:
    total_us = window.per_step(sum(map(sum, times)))
    fused_us = window.per_step(sum(map(max, times)))
    runs = len(times) / window.count
    return lost_time(
        "fusion",
        " + ".join(names),
        window,
        calls_per_step=runs * len(names),
        time_us=total_us,
        saved_us=min(total_us - fused_us, window.per_step(alone_ns)),
        confidence="medium" if len(names) <= LONG_RUN else "low",
        why=(
            f"{mean_count(runs, 'run')} of {len(names)} tiny kernels {take(runs)} "
            f"{total_us / runs:.2f} µs each; one kernel as slow as the slowest of them would take "
            f"{fused_us / runs:.2f} µs"
        ),
        advice=FUSION,
        limiter="launch",
    )
