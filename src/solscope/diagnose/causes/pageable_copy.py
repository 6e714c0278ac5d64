"""Copies from memory that is not pinned."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="pageable_copy",
    family="software",
    title="copies use memory that is not pinned",
    summary="Copies between host and device go through the driver's staging buffer and block the "
    "host: pin_memory or non_blocking was lost.",
    strength=3.5,
    required=(work.more_pageable,),
    explains=in_families(*host.HOST, "memcpy", "launch_wait"),
    supporting=(Support(0.5, gpu.kernels_same),),
    confirm="look for `.to(device)` and `copy_` of tensors without pin_memory=True",
    can_hide=True,
)
