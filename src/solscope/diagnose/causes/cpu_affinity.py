"""Fewer cores allowed."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="cpu_affinity",
    family="host",
    title="the process is confined to fewer cores",
    summary="The affinity mask allows fewer cores than before, so that the process's own threads "
    "wait for each other.",
    strength=4.0,
    required=(host.host_grew, host.fewer_cores),
    explains=in_families(*host.HOST),
    supporting=(Support(0.5, host.waits_for_core), Support(0.5, gpu.kernels_same)),
    confirm="compare `taskset -cp PID` with the normal run; widen the mask and compare again",
    can_hide=True,
)
