"""A quota on the CPU time of the loop's control group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose

NEVER_SHORT = 3.0
"""Cores that the loop and its threads never use up."""


class CpuQuota(Fault):
    """Dose: cores taken away from `NEVER_SHORT`."""

    name = "cpu_quota"
    expected = ("cpu_quota",)
    family = "host"
    half = "test"
    doses = (1.0, 1.6, 2.0)
    highest = 2.9

    def unavailable(self, rig: Rig) -> str | None:
        return rig.no_group if rig.group is None else None

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        group = rig.group
        assert group is not None
        try:
            yield lambda dose: group.limit(NEVER_SHORT - dose if dose else None)
        finally:
            group.limit(None)


FAULT = CpuQuota()
