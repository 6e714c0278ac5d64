"""More requests per step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class WorkloadBatch(Fault):
    """Dose: requests added to the batch."""

    name = "workload_batch"
    expected = ("workload_batch",)
    family = "workload"
    half = "test"
    doses = (16.0, 48.0, 128.0)
    highest = 480.0
    integer = True
    rebuilds = True

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(batch=rig.base.batch + round(dose))
        finally:
            rig.change()


FAULT = WorkloadBatch()
