"""Memory is allocated in the driver."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="allocator",
    family="software",
    title="memory is allocated and freed in the driver during serving",
    summary="The caching allocator does not serve requests from its pool (empty_cache, a memory "
    "limit, fragmentation), and every driver call waits for the GPU.",
    strength=3.5,
    required=(work.more_allocations,),
    explains=in_families(*host.HOST, "launch_wait"),
    supporting=(Support(0.5, gpu.kernels_same),),
    confirm="torch.cuda.memory_stats(): num_alloc_retries, num_ooms, segment counts; search for "
    "empty_cache()",
    can_hide=True,
)
