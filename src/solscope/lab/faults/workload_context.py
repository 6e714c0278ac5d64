"""Longer contexts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

GRAIN = 64


class WorkloadContext(Fault):
    """Dose: tokens added to the context of every request, in steps of 64."""

    name = "workload_context"
    expected = ("workload_context",)
    family = "workload"
    half = "tune"
    doses = (512.0, 1536.0, 4096.0)
    highest = 16384.0
    integer = True
    rebuilds = True

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        def set_dose(dose: float) -> None:
            rig.change(context=rig.base.context + GRAIN * round(dose / GRAIN))

        try:
            yield set_dose
        finally:
            rig.change()


FAULT = WorkloadContext()
