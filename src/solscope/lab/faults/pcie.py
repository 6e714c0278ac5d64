"""Other processes copy over the link between host and GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from solscope.lab.faults.base import Fault, Rig, SetDose

COUNT = 3


class Pcie(Fault):
    """Dose: processes that copy in both directions, in parts."""

    name = "pcie"
    expected = ("pcie",)
    family = "gpu"
    half = "tune"
    needs_gpu = True
    doses = (0.3, 1.0, 2.0)
    highest = float(COUNT)
    base: ClassVar[dict[str, Any]] = {"upload_chunks": 128, "staged_chunks": 2}

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        with rig.nursery.hogs("copy_over_link", COUNT, cores=rig.other_cores) as hogs:
            yield lambda dose: hogs.set(dose / COUNT)


FAULT = Pcie()
