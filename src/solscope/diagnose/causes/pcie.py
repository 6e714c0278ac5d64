"""A slower link to the host."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_work
from solscope.diagnose.causes.base import Cause, Support, in_families

CAUSE = Cause(
    id="pcie",
    family="link",
    title="copies between host and GPU are slower: PCIe is shared or degraded",
    summary="Copies of the same sizes from and to pinned memory move fewer bytes per second, while "
    "kernels take as long as before.",
    strength=3.0,
    required=(on_gpu.copies_slower,),
    explains=in_families("memcpy", "sync", "launch_wait"),
    supporting=(Support(1.0, on_gpu.pcie_traffic), Support(0.5, on_gpu.kernels_same)),
    forbidden=(on_gpu.all_kernels_slower, on_work.more_pageable),
    confirm="`nvidia-smi dmon -s t` for the traffic, `nvidia-smi -q -d PCI` for link width and "
    "generation",
    can_hide=True,
)
