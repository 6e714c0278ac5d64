"""Uploads and downloads lose their pinned memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from solscope.lab.faults.base import Fault, Rig, SetDose


class PageableCopy(Fault):
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

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:
        try:
            yield lambda dose: rig.change(pageable_chunks=round(dose))
        finally:
            rig.change()


FAULT = PageableCopy()
