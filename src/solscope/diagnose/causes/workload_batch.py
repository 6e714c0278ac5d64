"""Other batch sizes: more or fewer requests per step."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import work
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="workload_batch",
    family="workload",
    title="different batch sizes",
    summary="Steps have more or fewer requests, so each does a different amount of work. "
    "Not a fault: "
    "compare runs under the same load, or per token.",
    strength=3.5,
    required=(work.batch_differs,),
    explains=in_families("compute", "memcpy", "comm", "host", "sync", "launch_wait"),
    supporting=(Support(0.5, work.kernel_set_changed),),
    confirm="replay the normal run's requests, or compare tokens per second instead of step times",
    can_hide=True,
)
