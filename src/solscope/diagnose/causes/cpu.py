"""The CPU gives the launching thread less: other tasks, a lower clock, a quota, fewer cores."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import any_of, in_families, negate

host_copies_same = negate(
    host.host_copies_slower, "Copies inside host memory lost no more time than other host code."
)

CAUSES = (
    Cause(
        id="cpu_contention",
        family="host",
        title="other tasks compete for the CPU",
        summary="The thread that launches kernels is ready to run but has no core: it waits in the "
        "run queue while other tasks run.",
        strength=3.0,
        required=(host.host_grew, host.waits_for_core),
        explains=in_families(*host.HOST),
        supporting=(
            Support(0.5, host.preempted),
            Support(0.5, gpu.kernels_same),
            Support(0.3, host.foreign_cpu),
        ),
        forbidden=(host.throttled, host.fewer_cores),
        confirm="look at `pidstat -u 1` and `/proc/PID/schedstat`; pin the server to dedicated "
        "cores (taskset, cpuset) and compare again",
    ),
    Cause(
        id="cpu_slow",
        family="host",
        title="the CPU is slower: a lower clock, a shared core, or stopped from outside",
        summary="All host code takes longer in the same proportion, wherever it runs, and the "
        "thread does not wait in the run queue: the core's clock fell, a sibling thread shares the "
        "core, or the process is stopped and continued (SIGSTOP, a paused VM, a debugger).",
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
            Support(0.8, host_copies_same),
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
        confirm="time a fixed loop on that core (`solscope capture --spin`), read scaling_cur_freq "
        "and the process state in /proc/PID/stat (T: stopped)",
    ),
    Cause(
        id="cpu_quota",
        family="host",
        title="a CPU quota stops the process",
        summary="The control group uses up its CPU quota and is stopped until the next period, "
        "usually 100 ms.",
        strength=4.0,
        required=(host.host_grew, host.throttled),
        explains=in_families(*host.HOST),
        supporting=(Support(0.5, gpu.kernels_same),),
        confirm="read cpu.max and nr_throttled of the control group; raise the limit and compare "
        "again",
    ),
    Cause(
        id="cpu_affinity",
        family="host",
        title="the process is confined to fewer cores",
        summary="The affinity mask allows fewer cores than before, so that the process's own "
        "threads wait for each other.",
        strength=4.0,
        required=(host.host_grew, host.fewer_cores),
        explains=in_families(*host.HOST),
        supporting=(Support(0.5, host.waits_for_core), Support(0.5, gpu.kernels_same)),
        confirm="compare `taskset -cp PID` with the normal run; widen the mask and compare again",
        can_hide=True,
    ),
)
