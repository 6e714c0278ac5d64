"""Nothing is injected: the two recordings differ by noise alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from solscope.lab.faults.base import Fault, Rig, SetDose


class Nothing(Fault):
    """An A/A pair."""

    name = "none"
    expected = ("none",)
    family = "none"
    half = "tune"
    doses = (0.0, 0.0, 0.0)
    highest = 0.0
    search = False

    @contextmanager
    def inject(self, rig: Rig) -> Iterator[SetDose]:  # noqa: ARG002
        yield lambda _dose: None


FAULT = Nothing()
