"""Other processes copy host memory, on other cores, so that its bandwidth gets short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from solscope.lab.faults.base import Fault, Rig, SetDose


class HostMemory(Fault):
    """Dose: share of the time in which a process on every other core copies."""

    name = "host_memory"
    expected = ("host_memory",)
    family = "host"
    half = "test"
    doses = (0.3, 0.6, 1.0)
    highest = 1.0
    base: ClassVar[dict[str, Any]] = {"upload_chunks": 16, "staged_chunks": 16}

    def unavailable(self, rig: Rig) -> str | None:
        return "no other cores" if rig.other_cores & rig.cores else None

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        cores = rig.other_cores
        with rig.nursery.hogs("stream_memory", len(cores), cores=cores) as hogs:
            yield hogs.set


FAULT = HostMemory()
