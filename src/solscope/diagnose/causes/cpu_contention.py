"""Other tasks on the same cores."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import in_families

CAUSE = Cause(
    id="cpu_contention",
    family="host",
    title="other tasks compete for the CPU",
    summary="The thread that launches kernels is ready to run but has no core: it waits in the run "
    "queue while other tasks run.",
    strength=3.0,
    required=(host.host_grew, host.waits_for_core),
    explains=in_families(*host.HOST),
    supporting=(
        Support(0.5, host.preempted),
        Support(0.5, gpu.kernels_same),
        Support(0.3, host.foreign_cpu),
    ),
    forbidden=(host.throttled, host.fewer_cores),
    confirm="look at `pidstat -u 1` and `/proc/PID/schedstat`; pin the server to dedicated cores "
    "(taskset, cpuset) and compare again",
)
