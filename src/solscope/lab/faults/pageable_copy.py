"""Uploads and downloads lose their pinned memory."""

from __future__ import annotations

from typing import Any, ClassVar

from solscope.lab.faults.base import SettingsFault
from solscope.lab.loop import Settings


class PageableCopy(SettingsFault):
    """Dose: chunks per step that are uploaded from memory that is not pinned."""

    name = "pageable_copy"
    expected = ("pageable_copy",)
    family = "software"
    half = "test"
    needs_gpu = True
    doses = (4.0, 12.0, 32.0)
    highest = 64.0
    integer = True
    base: ClassVar[dict[str, Any]] = {"upload_chunks": 64, "staged_chunks": 0}

    def settings(self, base: Settings, dose: float) -> dict[str, Any]:  # noqa: ARG002
        return {"pageable_chunks": round(dose)}


FAULT = PageableCopy()
