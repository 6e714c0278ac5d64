"""The program asks the GPU for something else: syncs, copies, launches, kernels, types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Rig, SetDose
from solscope.lab.faults.injectors import TimesPerStep, hooked
from solscope.lab.loop import Point

BLOCK_BYTES = 64 << 20
"""Large enough for a segment of its own, so that the driver has to allocate it."""


@contextmanager
def fetch_values(rig: Rig) -> Iterator[SetDose]:
    """The host asks the GPU for a value, and waits for it, again and again."""
    import torch

    graph = rig.base.mode == "graph"
    layers = rig.loop.model.shape.layers
    point: Point = "sample" if graph else "layer"
    value = torch.zeros(1, device=rig.loop.device)
    count = 0

    def fetch(layer: int) -> None:
        # Spread evenly: of 5 values and 2 layers, layer 0 fetches 2 and layer 1 the other 3.
        each = count if graph else count * (layer + 1) // layers - count * layer // layers
        for _ in range(each):
            value.item()

    def set_dose(dose: float) -> None:
        nonlocal count
        count = round(dose)

    with hooked(rig, point, fetch):
        yield set_dose


@contextmanager
def allocate_in_driver(rig: Rig) -> Iterator[SetDose]:
    """GPU memory is allocated from the driver and freed in every step."""
    import torch

    allocations = TimesPerStep()

    def thrash(_layer: int) -> None:
        for _ in range(allocations.take()):
            block = torch.empty(BLOCK_BYTES, dtype=torch.uint8, device=rig.loop.device)
            del block
            torch.cuda.empty_cache()

    with hooked(rig, "sample", thrash):
        yield allocations.set_dose
