"""The process is stopped and continued from outside, as a throttled or stolen core does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class CpuSlow(Fault):
    """Dose: share of the time in which the process is stopped."""

    name = "cpu_slow"
    expected = ("cpu_slow",)
    family = "host"
    half = "test"
    doses = (0.12, 0.35, 0.6)
    highest = 0.9

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        with rig.nursery.hogs("stop_and_continue", 1, pid=os.getpid()) as hogs:
            yield hogs.set


FAULT = CpuSlow()
