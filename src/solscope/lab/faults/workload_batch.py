"""More requests per step."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings


class WorkloadBatch(SettingsFault):
    """Dose: requests added to the batch."""

    name = "workload_batch"
    expected = ("workload_batch",)
    family = "workload"
    half = "test"
    doses = (16.0, 48.0, 128.0)
    highest = 480.0
    integer = True
    rebuilds = True

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:
        return {"batch": base.batch + round(dose)}


FAULT = WorkloadBatch()
