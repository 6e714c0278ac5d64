"""The host program is slower: memory, disk, garbage collection, locks, one section."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import Answer, any_of, in_families
from solscope.diagnose.findings.findings import Findings


def bandwidth_taken(f: Findings) -> Answer:
    """Other processes use many cores; the main thread keeps its own, and yet runs slower."""
    foreign, queue = host.many_cores_busy(f), host.waits_for_core(f)
    running = host.runs_longer(f)
    if None in (foreign.holds, queue.holds, running.holds):
        return Answer(None, "too few sensors to distinguish memory bandwidth from a slow core")
    holds = bool(foreign.holds and not queue.holds and running.holds)
    return Answer(holds, f"{foreign.text}; {running.text}")


def looks_like_collections(f: Findings) -> Answer:
    """A running thread pauses for long, or with a grown heap, in one section of plain Python."""
    if host.collections_grew(f).holds is not None:
        return Answer(False, "garbage collections are recorded and do not explain it")
    if (blocked := host.stopped(f)).holds:
        return Answer(False, blocked.text)
    heap = any_of(host.heap_grew, host.long_pause)
    answers = [
        check(f) for check in (host.in_one_section, host.runs_longer, host.plain_python, heap)
    ]
    text = "; ".join(answer.text for answer in answers)
    return Answer(all(answer.holds for answer in answers), text)


CAUSES = (
    Cause(
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
        confirm="`perf stat -e LLC-load-misses` or `pcm-memory` on the host; stop the other load "
        "and compare again",
    ),
    Cause(
        id="disk_io",
        family="host",
        title="the host waits for disk I/O",
        summary="The process reads or writes more, or its reads and writes take longer (fsync in a "
        "log path, a slow or shared disk), and kernels are launched late meanwhile.",
        strength=3.0,
        required=(host.host_grew, any_of(host.more_io, host.stalled_by_io)),
        explains=in_families(*host.HOST),
        supporting=(
            Support(0.8, host.in_one_section),
            Support(0.5, host.io_pressure),
            Support(0.3, gpu.kernels_same),
        ),
        forbidden=(host.waits_for_core, host.throttled, host.process_stopped),
        confirm="`strace -f -e trace=fsync,fdatasync,write,read -T -p PID`; move the log to memory "
        "and compare again",
        detail=host.section_detail,
    ),
    Cause(
        id="gc",
        family="host",
        title="Python's garbage collector pauses the host",
        summary="Collections of a large heap run in the middle of serving. Recorded collections (a "
        "gc annotation, `gc_ns`) prove it; without them, long pauses in plain Python on a running "
        "core, or pauses with a grown heap, suggest it.",
        strength=2.0,
        required=(host.host_grew, any_of(host.collections_grew, looks_like_collections)),
        explains=in_families(*host.HOST),
        supporting=(
            Support(2.0, host.collections_grew),
            Support(0.5, gpu.kernels_same),
            Support(0.7, host.long_pause),
            Support(1.0, host.heap_grew),
        ),
        forbidden=(host.waits_for_core, host.throttled, host.more_io),
        own=("gc",),
        confirm="set gc.callbacks to count and time collections, or run once with gc.freeze() or "
        "gc.disable()",
    ),
    Cause(
        id="lock_wait",
        family="host",
        title="the launching thread waits for a lock or the GIL",
        summary="The main thread is blocked while another thread of the same process holds what it "
        "needs: the interpreter lock, or a lock around shared state.",
        strength=2.5,
        required=(
            host.host_grew,
            host.stopped,
            any_of(host.busy_threads, host.more_threads),
        ),
        explains=in_families(*host.HOST),
        supporting=(
            Support(1.0, host.busy_threads),
            Support(1.0, host.between_operators),
            Support(0.5, host.more_threads),
            Support(0.3, gpu.kernels_same),
        ),
        forbidden=(host.waits_for_core, host.throttled, host.process_stopped, host.more_io),
        confirm="`py-spy dump --pid PID` a few times, or `py-spy record --gil`: which thread holds "
        "it",
    ),
    Cause(
        id="slow_section",
        family="host",
        title="one section of the host program is slower",
        summary="One annotated section takes longer, out of all proportion to the rest of the host "
        "code: its own code changed, does more work, or waits.",
        strength=2.0,
        required=(host.host_grew, host.in_one_section),
        explains=in_families(*host.HOST),
        supporting=(Support(0.8, host.regular), Support(0.3, gpu.kernels_same)),
        forbidden=(
            host.waits_for_core,
            host.throttled,
            host.process_stopped,
            host.fewer_cores,
            host.collections_in_sections,
            work.graphs_lost,
        ),
        own=("host",),
        confirm="`py-spy record --pid PID --format speedscope`, or annotate inside that section",
        detail=host.section_detail,
    ),
)
