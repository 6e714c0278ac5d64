"""Processes that spin on the cores of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

PER_CORE = 4


class CpuContention(Fault):
    """Dose: spinning processes per core, in parts."""

    name = "cpu_contention"
    expected = ("cpu_contention",)
    family = "host"
    half = "tune"
    doses = (0.3, 0.8, 1.6)
    highest = float(PER_CORE)

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        count = PER_CORE * len(rig.cores)
        with rig.nursery.hogs("spin", count, cores=rig.cores) as hogs:
            yield lambda dose: hogs.set(dose / PER_CORE)


FAULT = CpuContention()
