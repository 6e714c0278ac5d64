"""A thread of the same process works while it holds the lock that every step needs."""

from __future__ import annotations

import hashlib
import time

from solscope.lab.faults.base import Rig, ThreadFault

PAUSE_S = 0.001
DATA = bytes(64 << 10)


class LockHeld(ThreadFault):
    """Dose: milliseconds that the lock is held at a time, with 1 ms between."""

    name = "lock_held"
    expected = ("lock_wait",)
    family = "host"
    half = "test"
    doses = (1.5, 5.0, 15.0)
    highest = 200.0

    def work(self, rig: Rig, dose: float) -> None:
        with rig.loop.lock:
            until = time.monotonic() + dose / 1e3
            while time.monotonic() < until:
                hashlib.sha256(DATA).digest()
        time.sleep(PAUSE_S)


FAULT = LockHeld()
