"""Other tasks on the same cores."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host
from solscope.diagnose.causes.base import Cause, Support, in_families

CAUSE = Cause(
    id="cpu_contention",
    family="host",
    title="other tasks compete for the CPU",
    summary="The thread that launches kernels is ready to run but has no core: it waits in the run "
    "queue while other tasks run.",
    strength=3.0,
    required=(on_host.host_grew, on_host.waits_for_core),
    explains=in_families(*on_host.HOST),
    supporting=(
        Support(0.5, on_host.preempted),
        Support(0.5, on_gpu.kernels_same),
        Support(0.3, on_host.foreign_cpu),
    ),
    forbidden=(on_host.throttled, on_host.fewer_cores),
    confirm="look at `pidstat -u 1` and `/proc/PID/schedstat`; pin the server to dedicated cores "
    "(taskset, cpuset) and compare again",
)
