"""A CPU quota."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="cpu_quota",
    family="host",
    title="a CPU quota stops the process",
    summary="The control group uses up its CPU quota and is stopped until the next period, usually "
    "100 ms.",
    strength=4.0,
    required=(host.host_grew, host.throttled),
    explains=in_families(*host.HOST),
    supporting=(Support(0.5, gpu.kernels_same),),
    confirm="read cpu.max and nr_throttled of the control group; raise the limit and compare again",
)
