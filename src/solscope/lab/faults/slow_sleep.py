"""Detokenizing waits, as for a slow service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class SlowSleep(Fault):
    """Dose: milliseconds of waiting in `detokenize`, every step."""

    name = "slow_sleep"
    expected = ("slow_section",)
    family = "software"
    half = "tune"
    doses = (1.0, 4.0, 10.0)
    highest = 100.0

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        seconds = 0.0

        def wait(_layer: int) -> None:
            if seconds:
                time.sleep(seconds)

        def set_dose(dose: float) -> None:
            nonlocal seconds
            seconds = dose / 1e3

        rig.loop.hooks["detokenize"] = wait
        try:
            yield set_dose
        finally:
            del rig.loop.hooks["detokenize"]


FAULT = SlowSleep()
