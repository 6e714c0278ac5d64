"""Steps find no graph for their batch and run eagerly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class GraphsOff(Fault):
    """Dose: share of the steps that run eagerly."""

    name = "graphs_off"
    expected = ("graphs_off",)
    family = "software"
    half = "tune"
    modes = ("graph",)
    needs_gpu = True
    doses = (0.25, 0.5, 1.0)
    highest = 1.0
    search = False

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(eager_share=dose)
        finally:
            rig.change()


FAULT = GraphsOff()
