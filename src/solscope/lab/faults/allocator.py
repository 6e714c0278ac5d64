"""GPU memory is allocated from the driver and freed in every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.loop import Point

BLOCK_BYTES = 64 << 20


class Allocator(Fault):
    """Dose: times per step that a block is allocated and the cache emptied."""

    name = "allocator"
    expected = ("allocator",)
    family = "software"
    half = "test"
    needs_gpu = True
    doses = (0.5, 2.0, 6.0)
    highest = 40.0

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        import torch

        dose, due = 0.0, 0.0
        point: Point = "sample"

        def thrash(_layer: int) -> None:
            nonlocal due
            due += dose
            while due >= 1.0:
                block = torch.empty(BLOCK_BYTES, dtype=torch.uint8, device=rig.loop.device)
                del block
                torch.cuda.empty_cache()
                due -= 1.0

        def set_dose(value: float) -> None:
            nonlocal dose, due
            dose, due = value, 0.0

        rig.loop.hooks[point] = thrash
        try:
            yield set_dose
        finally:
            del rig.loop.hooks[point]


FAULT = Allocator()
