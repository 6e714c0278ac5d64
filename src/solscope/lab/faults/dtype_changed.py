"""Matrix products run in 32-bit floats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.model import Variant


class DtypeChanged(Fault):
    """Dose: layers whose products are in 32-bit floats."""

    name = "dtype_changed"
    expected = ("dtype_changed",)
    family = "software"
    half = "test"
    needs_gpu = True
    doses = (1.0, 4.0, 12.0)
    highest = 12.0
    integer = True
    rebuilds = True

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(variant=Variant(float32_layers=round(dose)))
        finally:
            rig.change()


FAULT = DtypeChanged()
