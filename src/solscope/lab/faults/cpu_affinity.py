"""The loop and threads of its own process are pinned to one core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class CpuAffinity(Fault):
    """Dose: busy threads of the process that share the one core with the main thread."""

    name = "cpu_affinity"
    expected = ("cpu_affinity",)
    family = "host"
    half = "tune"
    doses = (1.0, 2.0, 3.0)
    highest = 3.0
    integer = True
    search = False

    def unavailable(self, rig: Rig) -> str | None:
        return "there is one core only" if len(rig.cores) < 2 else None

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        main = os.getpid()

        def pin(dose: float) -> None:
            one = {min(rig.cores)}
            sharing = rig.loop.helper_ids[: round(dose)]
            for thread in (main, *rig.loop.helper_ids):
                pinned = dose and (thread == main or thread in sharing)
                os.sched_setaffinity(thread, one if pinned else rig.cores)

        try:
            yield pin
        finally:
            pin(0.0)


FAULT = CpuAffinity()
