"""Host memory: bandwidth or pressure."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host
from solscope.diagnose.causes.base import Answer, Cause, Support, any_of, in_families
from solscope.diagnose.findings import Findings


def bandwidth_taken(f: Findings) -> Answer:
    """Others use many cores, our thread keeps its own, and yet runs slower."""
    foreign, queue = on_host.many_cores_busy(f), on_host.waits_for_core(f)
    running = on_host.runs_longer(f)
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
    required=(on_host.host_grew, any_of(bandwidth_taken, on_host.memory_pressure)),
    explains=in_families(*on_host.HOST, "memcpy"),
    supporting=(
        Support(0.8, on_host.host_copies_slower),
        Support(0.5, on_gpu.pageable_copies_slower),
        Support(0.5, on_gpu.kernels_same),
    ),
    forbidden=(
        on_host.waits_for_core,
        on_host.throttled,
        on_host.fewer_cores,
        on_gpu.other_processes,
        on_gpu.pcie_traffic,
    ),
    confirm="`perf stat -e LLC-load-misses` or `pcm-memory` on the host; stop the other load and "
    "compare again",
)
