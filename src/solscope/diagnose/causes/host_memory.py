"""Host memory: bandwidth or pressure."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import Answer, any_of, in_families
from solscope.diagnose.findings.findings import Findings


def bandwidth_taken(f: Findings) -> Answer:
    """Others use many cores, our thread keeps its own, and yet runs slower."""
    foreign, queue = host.many_cores_busy(f), host.waits_for_core(f)
    running = host.runs_longer(f)
    if None in (foreign.holds, queue.holds, running.holds):
        return Answer(None, "too few sensors to distinguish memory bandwidth from a slow core")
    holds = bool(foreign.holds and not queue.holds and running.holds)
    return Answer(holds, f"{foreign.text}; {running.text}")


CAUSE = Cause(
    id="host_memory",
    family="host",
    title="host memory is slow: bandwidth taken by others, or memory pressure",
    summary="Host code and host copies take longer although the thread has its core: other "
    "processes saturate the memory, or pages have to be fetched.",
    strength=3.0,
    required=(host.host_grew, any_of(bandwidth_taken, host.memory_pressure)),
    explains=in_families(*host.HOST, "memcpy"),
    supporting=(
        Support(0.8, host.host_copies_slower),
        Support(0.5, gpu.pageable_copies_slower),
        Support(0.5, gpu.kernels_same),
    ),
    forbidden=(
        host.waits_for_core,
        host.throttled,
        host.fewer_cores,
        gpu.other_processes,
        gpu.pcie_traffic,
    ),
    confirm="`perf stat -e LLC-load-misses` or `pcm-memory` on the host; stop the other load and "
    "compare again",
)
