"""The scheduler does needless work in Python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class SlowWork(Fault):
    """Dose: milliseconds of computing in `schedule`, every step."""

    name = "slow_work"
    expected = ("slow_section",)
    family = "software"
    half = "test"
    doses = (1.0, 4.0, 10.0)
    highest = 100.0

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        seconds = 0.0

        def compute(_layer: int) -> None:
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                sorted(str(number) for number in range(64))

        def set_dose(dose: float) -> None:
            nonlocal seconds
            seconds = dose / 1e3

        rig.loop.hooks["schedule"] = compute
        try:
            yield set_dose
        finally:
            del rig.loop.hooks["schedule"]


FAULT = SlowWork()
