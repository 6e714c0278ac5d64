"""Matrix products run in 32-bit floats."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings
from solscope.lab.model import Variant


class DtypeChanged(SettingsFault):
    """Dose: layers whose products are in 32-bit floats."""

    name = "dtype_changed"
    expected = ("dtype_changed",)
    family = "software"
    half = "test"
    needs_gpu = True
    doses = (1.0, 4.0, 12.0)
    highest = 12.0
    integer = True
    rebuilds = True

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:  # noqa: ARG002
        return {"variant": Variant(float32_layers=round(dose))}


FAULT = DtypeChanged()
