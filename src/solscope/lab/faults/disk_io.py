"""The log is written in larger pieces and forced to the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

PIECE = b"x" * (64 << 10)
FREE_S = 0.00005
"""A file system that forces 64 KiB to its disk faster than this has no disk."""


class DiskIo(Fault):
    """Dose: forced writes per step; a part means not in every step."""

    name = "disk_io"
    expected = ("disk_io",)
    family = "host"
    half = "tune"
    doses = (0.25, 1.0, 3.0)
    highest = 40.0

    def unavailable(self, rig: Rig) -> str | None:
        path = rig.folder / "probe.log"
        with path.open("wb", buffering=0) as file:
            start = time.perf_counter()
            for _ in range(5):
                file.write(PIECE)
                os.fsync(file.fileno())
            each_s = (time.perf_counter() - start) / 5
        path.unlink()
        return f"{rig.folder} is not on a disk: fsync is free" if each_s < FREE_S else None

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        path = rig.folder / "requests.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        due = 0.0
        dose = 0.0

        def log(_layer: int) -> None:
            nonlocal due
            due += dose
            while due >= 1.0:
                os.write(descriptor, PIECE)
                os.fsync(descriptor)
                due -= 1.0

        def set_dose(value: float) -> None:
            nonlocal dose, due
            dose, due = value, 0.0

        rig.loop.hooks["detokenize"] = log
        try:
            yield set_dose
        finally:
            del rig.loop.hooks["detokenize"]
            os.close(descriptor)
            path.unlink()


FAULT = DiskIo()
