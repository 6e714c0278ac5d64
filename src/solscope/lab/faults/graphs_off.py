"""Steps find no graph for their batch and run eagerly."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings


class GraphsOff(SettingsFault):
    """Dose: share of the steps that run eagerly."""

    name = "graphs_off"
    expected = ("graphs_off",)
    family = "software"
    half = "tune"
    modes = ("graph",)
    needs_gpu = True
    doses = (0.25, 0.5, 1.0)
    highest = 1.0
    search = False

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:  # noqa: ARG002
        return {"eager_share": dose}


FAULT = GraphsOff()
