"""Attention falls back from one fused kernel to products and a softmax."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.model import Variant


class KernelChanged(Fault):
    """Dose: layers that lost the fused kernel."""

    name = "kernel_changed"
    expected = ("kernel_changed",)
    family = "software"
    half = "tune"
    needs_gpu = True
    doses = (1.0, 4.0, 12.0)
    highest = 12.0
    integer = True
    rebuilds = True

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(variant=Variant(math_attention_layers=round(dose)))
        finally:
            rig.change()


FAULT = KernelChanged()
