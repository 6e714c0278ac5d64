"""The GPU or a link to it is slower: shared, throttled, PCIe, other GPUs."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import any_of, in_families
from solscope.diagnose.findings.findings import Findings


def explained_by_clock(f: Findings) -> float:
    """At most what the clock can do: at 7 % less, kernels take 1 / 0.93 of their time."""
    clock = f.sensors.counter("gpu_sm_frequency")
    share = min(1.0, max(0.0, f.share("compute", "comm", "memcpy", "launch_wait")))
    if clock is None or not 0 < clock.ratio < 1 or f.delta_ms <= 0:
        return share
    possible = f.parts.normal_by_family["compute"] * (1 / clock.ratio - 1)
    return min(share, f.limits.dose_slack * possible / f.delta_ms)


CAUSES = (
    Cause(
        id="gpu_contention",
        family="gpu",
        title="another process uses the GPU",
        summary="The same kernels take longer, of all kinds, or launched work starts late, because "
        "another process takes the SMs, the memory bandwidth or time slices.",
        strength=2.0,
        required=(any_of(gpu.all_kernels_slower, gpu.interrupted, gpu.waits_though_launched),),
        explains=in_families("compute", "launch_wait", "comm", "sync"),
        supporting=(
            Support(2.0, gpu.other_processes),
            Support(1.5, gpu.foreign_gpu),
        ),
        forbidden=(
            gpu.alone,
            gpu.slower_by_itself,
            gpu.only_copies_slower,
            work.dtype_differs,
            work.batch_differs,
            work.kernel_set_changed,
        ),
        own=("compute", "launch_wait", "comm"),
        confirm="list the GPU's processes (`nvidia-smi`); move the other one away and compare "
        "again",
        can_hide=True,
    ),
    Cause(
        id="gpu_clock",
        family="gpu",
        title="the GPU's clock is lower: power, temperature or a fixed limit",
        summary="The SM clock fell, and the same kernels take longer in proportion.",
        strength=3.0,
        required=(gpu.slower_by_itself, gpu.kernels_slower),
        explains=explained_by_clock,
        supporting=(Support(1.0, gpu.limited), Support(0.5, gpu.all_kernels_slower)),
        own=("compute",),
        confirm="`nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`: clock event reasons, power cap, "
        "temperature",
        can_hide=True,
    ),
    Cause(
        id="pcie",
        family="link",
        title="copies between host and GPU are slower: PCIe is shared or degraded",
        summary="Copies of the same sizes from and to pinned memory move fewer bytes per second, "
        "while kernels take as long as before, or the link carries more.",
        strength=3.0,
        required=(any_of(gpu.copies_slower, gpu.pcie_shared),),
        explains=in_families("memcpy", "sync", "launch_wait"),
        supporting=(Support(1.0, gpu.pcie_traffic), Support(0.5, gpu.kernels_same)),
        forbidden=(gpu.kernels_slower_like_copies, work.more_pageable),
        own=("memcpy",),
        confirm="`nvidia-smi dmon -s t` for the traffic, `nvidia-smi -q -d PCI` for link width and "
        "generation",
        can_hide=True,
    ),
    Cause(
        id="interconnect",
        family="link",
        title="communication between GPUs is slower",
        summary="The same collectives take longer per call, and other kernels do not, or by far "
        "less: a slow link, a shared network, or a rank that comes late.",
        strength=2.5,
        required=(gpu.communication_slower,),
        explains=in_families("comm"),
        supporting=(Support(0.5, gpu.kernels_same), Support(1.0, gpu.gpu_link_traffic)),
        forbidden=(gpu.kernels_slower_like_communication,),
        own=("comm",),
        confirm="compare the ranks of the run (`solscope show FOLDER`): a rank that waits less "
        "than the others is the late one; run nccl-tests on the same GPUs",
        can_hide=True,
    ),
)
