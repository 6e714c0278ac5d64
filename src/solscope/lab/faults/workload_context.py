"""Longer contexts."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings

GRAIN = 64


class WorkloadContext(SettingsFault):
    """Dose: tokens added to the context of every request, in steps of 64."""

    name = "workload_context"
    expected = ("workload_context",)
    family = "workload"
    half = "tune"
    doses = (512.0, 1536.0, 4096.0)
    highest = 16384.0
    integer = True
    rebuilds = True

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:
        return {"context": base.context + GRAIN * round(dose / GRAIN)}


FAULT = WorkloadContext()
