"""More steps with a prefill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class WorkloadMix(Fault):
    """Dose: how many times as often as in the normal run a step prefills."""

    name = "workload_mix"
    expected = ("workload_mix",)
    family = "workload"
    half = "test"
    doses = (2.0, 4.0, 8.0)
    highest = 8.0
    search = False

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        def set_dose(dose: float) -> None:
            every = rig.base.prefill_every
            rig.change(prefill_every=max(1, round(every / dose)) if dose else every)

        try:
            yield set_dose
        finally:
            rig.change()


FAULT = WorkloadMix()
