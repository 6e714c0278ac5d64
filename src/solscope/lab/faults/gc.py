"""The garbage collector goes through a large heap, at places that change from step to step."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.loop import Point

POINTS: tuple[Point, ...] = ("schedule", "decode", "sample", "detokenize")


class GarbageCollection(Fault):
    """Dose: thousands of linked objects on the heap; one full collection per step."""

    name = "gc"
    expected = ("gc",)
    family = "host"
    half = "test"
    doses = (10.0, 50.0, 200.0)
    highest = 1000.0

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        heap: list[Any] = []
        active = False

        def set_dose(dose: float) -> None:
            nonlocal active
            active = dose > 0
            if not active:
                return
            wanted = round(dose * 1000)
            del heap[wanted:]
            gc.disable()
            while len(heap) < wanted:
                node: dict[str, Any] = {"previous": heap[-1] if heap else None}
                node["self"] = node
                heap.append(node)
            gc.enable()

        def collect(point: int) -> None:
            # Python chooses the place by counting allocations, so it is another one every step.
            if active and rig.loop.index % len(POINTS) == point:
                gc.collect()

        before = gc.get_freeze_count()
        if not before:
            gc.freeze()
        for number, point in enumerate(POINTS):
            rig.loop.hooks[point] = lambda _layer, number=number: collect(number)  # type: ignore[misc]
        try:
            yield set_dose
        finally:
            for point in POINTS:
                del rig.loop.hooks[point]
            heap.clear()
            gc.collect()
            gc.unfreeze()


FAULT = GarbageCollection()
