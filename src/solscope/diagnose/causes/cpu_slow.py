"""A slower CPU."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import any_of, in_families, negate

CAUSE = Cause(
    id="cpu_slow",
    family="host",
    title="the CPU is slower: a lower clock, a shared core, or stopped from outside",
    summary="All host code takes longer in the same proportion, wherever it runs, and the thread "
    "does not wait in the run queue: the core's clock fell, a sibling thread shares the core, or "
    "the process is stopped and continued (SIGSTOP, a paused VM, a debugger).",
    strength=2.0,
    required=(
        host.host_grew,
        any_of(
            host.slower_clock,
            host.slower_beside_others,
            host.process_stopped,
            host.stopped_everywhere,
        ),
    ),
    explains=in_families(*host.HOST),
    supporting=(
        Support(1.5, host.slower_clock),
        Support(0.5, gpu.kernels_same),
        Support(0.5, host.slower_ops),
        Support(0.5, host.stopped_everywhere),
        Support(1.0, host.process_stopped),
        Support(0.8, negate(host.host_copies_slower)),
    ),
    forbidden=(
        host.waits_for_core,
        host.throttled,
        host.fewer_cores,
        host.more_io,
        host.busy_threads,
        host.between_operators,
        gpu.other_processes,
        work.graphs_lost,
        work.more_launches,
    ),
    confirm="time a fixed loop on that core (`solscope capture --spin`), read scaling_cur_freq and "
    "the process state in /proc/PID/stat (T: stopped)",
)
