"""A thread of the same process runs pure Python and holds the GIL."""

from __future__ import annotations

import time

from solscope.lab.faults.base import Rig, ThreadFault

BURST_S = 0.0005


class LockGil(ThreadFault):
    """Dose: share of the time in which the thread wants the GIL, in bursts."""

    name = "lock_gil"
    expected = ("lock_wait",)
    family = "host"
    half = "tune"
    doses = (0.1, 0.35, 0.6)
    highest = 0.95

    def work(self, rig: Rig, dose: float) -> None:  # noqa: ARG002
        until = time.monotonic() + BURST_S
        while time.monotonic() < until:
            sum(range(50))
        time.sleep(BURST_S * (1.0 - dose) / dose)


FAULT = LockGil()
