"""More steps with a prefill."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings


class WorkloadMix(SettingsFault):
    """Dose: how many times as often as in the normal run a step prefills."""

    name = "workload_mix"
    expected = ("workload_mix",)
    family = "workload"
    half = "test"
    doses = (2.0, 4.0, 8.0)
    highest = 8.0
    search = False

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:
        every = base.prefill_every
        return {"prefill_every": max(1, round(every / dose)) if dose else every}


FAULT = WorkloadMix()
