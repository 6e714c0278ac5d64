"""A slower CPU."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host, on_work
from solscope.diagnose.causes.base import Cause, Support, any_of, in_families, negate

CAUSE = Cause(
    id="cpu_slow",
    family="host",
    title="the CPU is slower: a lower clock, a shared core, or stopped from outside",
    summary="All host code takes longer in the same proportion, wherever it runs, and the thread "
    "does not wait in the run queue: the core's clock fell, a sibling thread shares the core, or "
    "the process is stopped and continued (SIGSTOP, a paused VM, a debugger).",
    strength=2.0,
    required=(
        on_host.host_grew,
        any_of(
            on_host.slower_clock,
            on_host.slower_beside_others,
            on_host.process_stopped,
            on_host.stopped_everywhere,
        ),
    ),
    explains=in_families(*on_host.HOST),
    supporting=(
        Support(1.5, on_host.slower_clock),
        Support(0.5, on_gpu.kernels_same),
        Support(0.5, on_host.slower_ops),
        Support(0.5, on_host.stopped_everywhere),
        Support(1.0, on_host.process_stopped),
        Support(0.8, negate(on_host.host_copies_slower)),
    ),
    forbidden=(
        on_host.waits_for_core,
        on_host.throttled,
        on_host.fewer_cores,
        on_host.more_io,
        on_host.busy_threads,
        on_host.between_operators,
        on_gpu.other_processes,
        on_work.graphs_lost,
        on_work.more_launches,
    ),
    confirm="time a fixed loop on that core (`solscope capture --spin`), read scaling_cur_freq and "
    "the process state in /proc/PID/stat (T: stopped)",
)
