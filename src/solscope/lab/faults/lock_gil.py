"""A thread of the same process runs pure Python and holds the GIL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

BURST_S = 0.0005


class LockGil(Fault):
    """Dose: share of the time in which the thread wants the GIL, in bursts."""

    name = "lock_gil"
    expected = ("lock_wait",)
    family = "host"
    half = "tune"
    doses = (0.1, 0.35, 0.6)
    highest = 0.95

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:  # noqa: ARG002
        dose = 0.0
        done = threading.Event()

        def run() -> None:
            while not done.is_set():
                if dose <= 0.0:
                    time.sleep(0.005)
                    continue
                until = time.monotonic() + BURST_S
                while time.monotonic() < until:
                    sum(range(50))
                time.sleep(BURST_S * (1.0 - dose) / dose)

        def set_dose(value: float) -> None:
            nonlocal dose
            dose = value

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield set_dose
        finally:
            done.set()
            thread.join()


FAULT = LockGil()
