"""What to fix first: everything a step could do without, ranked by the time it would save.

Times are means per step and GPU, over the usual steps of the phase that takes most time
(`attribution/usual_steps.py`). Five kinds of rows share no time with one another, and their savings
hold together (`additive.py`): all rows never save more than the step has.

* operator: calls of one operator with one set of axes in one role, against their bound. Saved is
  the time above bound / target, as far as nothing else runs at that time.
* fusion: runs of at least `SHORTEST_RUN` tiny calls on one stream. Saved is all but the slowest of
  them: one kernel that takes as long.
* comm: communication, by collective. Saved is the part that no computation hides, as far as there
  is computation to hide it under.
* copy: memory copies, by direction. Saved is the part that nothing else hides. Copies within a GPU
  are operators where the hardware is known, because they have a bound.
* idle: gaps between activities, in a step and between steps, by cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.errors import UsageError
from solscope.hardware import Hardware
from solscope.views.costs import CallTable, find_calls, replays_graphs
from solscope.views.hotspots.additive import additive, with_time_alone
from solscope.views.hotspots.base import Hotspot, HotspotCoverage, HotspotTable
from solscope.views.hotspots.copies import copies_between, exposed_copies
from solscope.views.hotspots.fusion import fusions, tiny_runs
from solscope.views.hotspots.idle import exposed_communication, idle_time
from solscope.views.hotspots.slow import slow_operators, streamed_bytes
from solscope.views.hotspots.window import Window, step_window, step_windows
from solscope.views.operators import hardware_of, no_hardware
from solscope.views.percent import percent_of

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

__all__ = [
    "TARGET_PCT",
    "Hotspot",
    "HotspotCoverage",
    "HotspotTable",
    "hotspots",
    "hotspots_by_phase",
]

TARGET_PCT = 80.0
"""Share of its bound that a good kernel reaches; time below that is not counted as recoverable."""


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
        raise UsageError(f"target must be a percentage of the bound, not {target_pct}")
    card = hardware or hardware_of(attributed)
    return hotspots_of_calls(attributed, find_calls(attributed, model), card, target_pct)


def hotspots_by_phase(
    attributed: Attributed,
    hardware: Hardware | None = None,
    target_pct: float = TARGET_PCT,
    model: Model | None = None,
) -> list[HotspotTable]:
    """`hotspots` of each phase, that with most time first: which one counts, the run decides."""
    card = hardware or hardware_of(attributed)
    table = find_calls(attributed, model)
    return [
        hotspots_of_calls(attributed, table, card, target_pct, window)
        for window in step_windows(attributed)
    ]


def hotspots_of_calls(
    attributed: Attributed,
    table: CallTable,
    card: Hardware | None,
    target_pct: float = TARGET_PCT,
    window: Window | None = None,
) -> HotspotTable:
    """`hotspots` of calls that were found before; in the phase with most time unless given."""
    window = window or step_window(attributed)
    calls = with_time_alone(window.of(table.calls), attributed, table, window)
    runs = tiny_runs(calls, table)
    copies = copies_between(calls, table, card)
    elsewhere = {*copies, *(c for run in runs for c in run)}
    alone = calls.filter(~pl.col("call").is_in(list(elsewhere)))
    candidates = [
        *slow_operators(
            alone, table, card, window, target_pct, streamed_bytes(calls, table, card, window)
        ),
        *fusions(runs, calls, table, window),
        *exposed_communication(attributed, calls, table, card, window),
        *exposed_copies(attributed, copies, table, window),
        *idle_time(attributed, window),
    ]
    compute_us = 0.0 if window.typical is None else window.typical.compute_ns / 1e3
    ranked = additive(candidates, compute_us, window.step_ns / 1e3)
    return HotspotTable(
        profile=attributed.profile.path,
        hardware=None if card is None else card.name,
        no_hardware=no_hardware(attributed) if card is None else None,
        phase=window.phase,
        steps=window.basis.steps,
        basis=window.basis,
        step_ms=window.step_ns / 1e6,
        target_pct=target_pct,
        coverage=HotspotCoverage(_cost_pct(calls, table), replays_graphs(attributed)),
        hotspots=[
            msgspec.structs.replace(h, rank=number) for number, h in enumerate(ranked, start=1)
        ],
    )


def _cost_pct(calls: pl.DataFrame, table: CallTable) -> float | None:
    costed = [kind_index for kind_index, kind in enumerate(table.kinds) if kind.cost is not None]
    total = int(calls["time_ns"].sum())
    costed_ns = int(calls.filter(pl.col("kind").is_in(costed))["time_ns"].sum())
    return percent_of(costed_ns, total)
