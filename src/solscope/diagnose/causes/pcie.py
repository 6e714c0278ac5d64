"""A slower link to the host."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="pcie",
    family="link",
    title="copies between host and GPU are slower: PCIe is shared or degraded",
    summary="Copies of the same sizes from and to pinned memory move fewer bytes per second, while "
    "kernels take as long as before.",
    strength=3.0,
    required=(gpu.copies_slower,),
    explains=in_families("memcpy", "sync", "launch_wait"),
    supporting=(Support(1.0, gpu.pcie_traffic), Support(0.5, gpu.kernels_same)),
    forbidden=(gpu.all_kernels_slower, work.more_pageable),
    confirm="`nvidia-smi dmon -s t` for the traffic, `nvidia-smi -q -d PCI` for link width and "
    "generation",
    can_hide=True,
)
