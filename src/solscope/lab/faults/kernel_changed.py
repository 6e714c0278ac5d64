"""Attention falls back from one fused kernel to products and a softmax."""

from __future__ import annotations

from typing import Any

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings
from solscope.lab.model import Variant


class KernelChanged(SettingsFault):
    """Dose: layers that lost the fused kernel."""

    name = "kernel_changed"
    expected = ("kernel_changed",)
    family = "software"
    half = "tune"
    needs_gpu = True
    doses = (1.0, 4.0, 12.0)
    highest = 12.0
    integer = True
    rebuilds = True

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:  # noqa: ARG002
        return {"variant": Variant(math_attention_layers=round(dose))}


FAULT = KernelChanged()
