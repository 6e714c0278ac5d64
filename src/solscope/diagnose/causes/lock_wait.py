"""Waiting for a lock."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import any_of, in_families

CAUSE = Cause(
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
    confirm="`py-spy dump --pid PID` a few times, or `py-spy record --gil`: which thread holds it",
)
