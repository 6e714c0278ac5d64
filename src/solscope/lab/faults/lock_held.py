"""A thread of the same process works while it holds the lock that every step needs."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

PAUSE_S = 0.001


class LockHeld(Fault):
    """Dose: milliseconds that the lock is held at a time, with 1 ms between."""

    name = "lock_held"
    expected = ("lock_wait",)
    family = "host"
    half = "test"
    doses = (1.5, 5.0, 15.0)
    highest = 200.0

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        dose_ms = 0.0
        done = threading.Event()
        data = bytes(64 << 10)

        def run() -> None:
            while not done.is_set():
                if dose_ms <= 0.0:
                    time.sleep(0.005)
                    continue
                with rig.loop.lock:
                    until = time.monotonic() + dose_ms / 1e3
                    while time.monotonic() < until:
                        hashlib.sha256(data).digest()
                time.sleep(PAUSE_S)

        def set_dose(value: float) -> None:
            nonlocal dose_ms
            dose_ms = value

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield set_dose
        finally:
            done.set()
            thread.join()


FAULT = LockHeld()
