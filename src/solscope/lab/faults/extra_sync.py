"""The host asks the GPU for a value, and waits for it, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.loop import Point


class ExtraSync(Fault):
    """Dose: values fetched per step: between layers, or before sampling in a graph."""

    name = "extra_sync"
    expected = ("extra_sync",)
    family = "software"
    half = "tune"
    needs_gpu = True
    doses = (24.0, 96.0, 240.0)
    highest = 400.0
    integer = True

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        import torch

        graph = rig.base.mode == "graph"
        layers = rig.loop.model.shape.layers
        point: Point = "sample" if graph else "layer"
        value = torch.zeros(1, device=rig.loop.device)
        count = 0

        def fetch(layer: int) -> None:
            each = count if graph else count * (layer + 1) // layers - count * layer // layers
            for _ in range(each):
                value.item()

        def set_dose(dose: float) -> None:
            nonlocal count
            count = round(dose)

        rig.loop.hooks[point] = fetch
        try:
            yield set_dose
        finally:
            del rig.loop.hooks[point]


FAULT = ExtraSync()
