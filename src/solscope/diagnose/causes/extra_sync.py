"""More synchronization."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="extra_sync",
    family="software",
    title="the host synchronizes with the GPU more often",
    summary="More synchronizing calls per step (`.item()`, `.cpu()`, `torch.cuda.synchronize()`): "
    "the queue of launched work runs dry each time.",
    strength=3.0,
    required=(work.more_syncs,),
    explains=in_families(*host.HOST, "launch_wait", "memcpy"),
    supporting=(Support(0.5, gpu.kernels_same),),
    forbidden=(work.more_allocations, work.more_pageable),
    confirm="torch.cuda.set_sync_debug_mode('warn') prints where each synchronization comes from",
    can_hide=True,
)
