"""Another mix of prefill and decode."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause
from solscope.diagnose.evidence import work
from solscope.diagnose.evidence.base import any_of
from solscope.diagnose.findings.findings import Findings


def explains(f: Findings) -> float:
    """What comes from phases occurring more often, and from phases with other prompts."""
    if not f.delta_ms:
        return 0.0
    prompts = 0.0
    if work.prompts_differ(f).holds:
        prompts = sum(c.delta_ms for c in f.parts.components if c.phase != "decode")
    return min(1.0, max(0.0, f.parts.mix_ms / f.delta_ms, prompts / f.delta_ms))


CAUSE = Cause(
    id="workload_mix",
    family="workload",
    title="a different mix of prefill and decode",
    summary="Phases occur more or less often; each of them takes as long as before. Not a fault: "
    "the requests changed, or how they are scheduled.",
    strength=3.0,
    required=(any_of(work.mix_differs, work.prompts_differ),),
    explains=explains,
    confirm="compare phase by phase; look at arrival rate and prompt lengths",
    can_hide=True,
)
