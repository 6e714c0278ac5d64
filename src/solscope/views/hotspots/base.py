"""The rows of a work list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from solscope.attribution.usual_steps import StepBasis
from solscope.views.percent import percent_of

if TYPE_CHECKING:
    from solscope.views.hotspots.window import Window


def mean_count(count: float, noun: str, plural: str | None = None) -> str:
    """A mean count: `1 call`, `2.5 calls`."""
    return f"{count:.4g} {noun if count == 1 else plural or noun + 's'}"


def take(count: float) -> str:
    """The verb after a mean count: `1 call takes`, `2.5 calls take`."""
    return "takes" if count == 1 else "take"


HotspotKind = Literal["operator", "fusion", "comm", "copy", "idle", "imbalance"]
Confidence = Literal["high", "medium", "low"]


class Hotspot(msgspec.Struct, frozen=True):
    """One thing to fix; times are per step."""

    rank: int
    kind: HotspotKind
    operator: str
    """Operator as recorded; the operators of a run; `memcpy` and its direction; the cause of idle
    time; the rank that the others wait for."""
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
    """Of a step, above the target share of what the calls can reach: their bound, or HBM."""
    recoverable_pct_of_step: float
    confidence: Confidence
    why: str
    """The arithmetic."""
    advice: str
    """What to do about it, in one sentence."""


def lost_time(
    kind: HotspotKind,
    name: str,
    window: Window,
    *,
    calls_per_step: float,
    time_us: float,
    saved_us: float,
    confidence: Confidence,
    why: str,
    advice: str,
    bound_us: float | None = None,
    limiter: str | None = None,
) -> Hotspot:
    """A row for time that is not the work of one operator; not yet ranked."""
    return Hotspot(
        rank=0,
        kind=kind,
        operator=name,
        role=None,
        axes=None,
        calls_per_step=calls_per_step,
        time_us=time_us,
        bound_us=bound_us,
        limiter=limiter,
        expected_us=None,
        efficiency_pct=percent_of(bound_us, time_us),
        recoverable_us=saved_us,
        recoverable_pct_of_step=window.pct(saved_us),
        confidence=confidence,
        why=why,
        advice=advice,
    )


class HotspotCoverage(msgspec.Struct, frozen=True):
    """What the ranking rests on."""

    cost_pct: float | None
    """Share of the GPU time of these steps whose FLOP and bytes are known."""
    graph_replays: bool = False
    """Whether graphs were replayed, whose kernels have no recorded shapes."""


class HotspotTable(msgspec.Struct, frozen=True):
    """The work list of one profile."""

    profile: str
    hardware: str | None
    phase: str | None
    """Phase of the steps; null when it is not known."""
    steps: int
    """Steps that the means are over; 0 when none was found: then per recording."""
    basis: StepBasis
    """These steps, and which ones were left out."""
    step_ms: float
    """Step time: mean from the start of a step to the start of the next."""
    target_pct: float
    coverage: HotspotCoverage
    hotspots: list[Hotspot]
    no_hardware: str | None = None
    """Why the hardware is not known, and what to do about it; null where it is."""
