"""Another mix of prefill and decode."""

from __future__ import annotations

from solscope.diagnose.causes import on_work
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.findings import Findings


def explains(f: Findings) -> float:
    """The part of the difference that comes from phases occurring more or less often."""
    return min(1.0, max(0.0, f.parts.mix_ms / f.delta_ms)) if f.delta_ms else 0.0


CAUSE = Cause(
    id="workload_mix",
    family="workload",
    title="another mix of prefill and decode",
    summary="Phases occur more or less often; each of them takes as long as before. Not a fault: "
    "the requests changed, or how they are scheduled.",
    strength=3.0,
    required=(on_work.mix_differs,),
    explains=explains,
    confirm="compare phase by phase; look at arrival rate and prompt lengths",
    can_hide=True,
)
