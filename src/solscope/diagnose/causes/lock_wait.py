"""Waiting for a lock."""

from __future__ import annotations

from solscope.diagnose.causes import on_gpu, on_host
from solscope.diagnose.causes.base import Cause, Support, any_of, in_families

CAUSE = Cause(
    id="lock_wait",
    family="host",
    title="the launching thread waits for a lock or the GIL",
    summary="The main thread is blocked while another thread of the same process holds what it "
    "needs: the interpreter lock, or a lock around shared state.",
    strength=2.5,
    required=(
        on_host.host_grew,
        on_host.stopped,
        any_of(on_host.busy_threads, on_host.more_threads),
    ),
    explains=in_families(*on_host.HOST),
    supporting=(
        Support(1.0, on_host.busy_threads),
        Support(1.0, on_host.between_operators),
        Support(0.5, on_host.more_threads),
        Support(0.3, on_gpu.kernels_same),
    ),
    forbidden=(on_host.waits_for_core, on_host.throttled, on_host.process_stopped, on_host.more_io),
    confirm="`py-spy dump --pid PID` a few times, or `py-spy record --gil`: which thread holds it",
)
