"""A lower GPU clock."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu
from solscope.diagnose.findings.findings import Findings


def explained_by_clock(f: Findings) -> float:
    """At most what the clock can do: at 7 % less, kernels take 1 / 0.93 of their time."""
    clock = f.sensors.counter("gpu_sm_frequency")
    share = min(1.0, max(0.0, f.share("compute", "comm", "memcpy", "launch_wait")))
    if clock is None or not 0 < clock.ratio < 1 or f.delta_ms <= 0:
        return share
    possible = f.parts.normal_by_family["compute"] * (1 / clock.ratio - 1)
    return min(share, f.limits.dose_slack * possible / f.delta_ms)


CAUSE = Cause(
    id="gpu_clock",
    family="gpu",
    title="the GPU's clock is lower: power, temperature or a fixed limit",
    summary="The SM clock fell, and the same kernels take longer in proportion.",
    strength=3.0,
    required=(gpu.slower_by_itself, gpu.kernels_slower),
    explains=explained_by_clock,
    supporting=(Support(1.0, gpu.limited), Support(0.5, gpu.all_kernels_slower)),
    confirm="`nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`: clock event reasons, power cap, "
    "temperature",
    can_hide=True,
)
