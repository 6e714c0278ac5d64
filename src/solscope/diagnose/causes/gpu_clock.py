"""A lower GPU clock."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="gpu_clock",
    family="gpu",
    title="the GPU's clock is lower: power, temperature or a fixed limit",
    summary="The SM clock fell, and the same kernels take longer in proportion.",
    strength=3.0,
    required=(gpu.slower_by_itself, gpu.kernels_slower),
    explains=in_families("compute", "comm", "memcpy", "launch_wait"),
    supporting=(Support(1.0, gpu.limited), Support(0.5, gpu.all_kernels_slower)),
    confirm="`nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`: clock event reasons, power cap, "
    "temperature",
    can_hide=True,
)
