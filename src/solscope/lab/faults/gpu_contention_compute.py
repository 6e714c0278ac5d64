"""Other processes multiply matrices on the same GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

COUNT = 3


class GpuContentionCompute(Fault):
    """Dose: processes at work on the GPU, in parts."""

    name = "gpu_contention_compute"
    expected = ("gpu_contention",)
    family = "gpu"
    half = "tune"
    needs_gpu = True
    doses = (0.3, 1.0, 2.0)
    highest = float(COUNT)

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        with rig.nursery.hogs("multiply_on_gpu", COUNT, cores=rig.other_cores) as hogs:
            yield lambda dose: hogs.set(dose / COUNT)


FAULT = GpuContentionCompute()
