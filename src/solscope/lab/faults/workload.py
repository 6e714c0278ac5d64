"""Other work, or the same work again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from solscope.lab.faults.base import Rig, SetDose
from solscope.lab.loop import Settings

GRAIN_TOKENS = 64
"""Contexts grow by a multiple of this."""


@contextmanager
def nothing(_rig: Rig) -> Iterator[SetDose]:
    """The two recordings differ by noise alone."""
    yield lambda _dose: None


def larger_batch(base: Settings, dose: float) -> dict[str, Any]:
    """More requests per step."""
    return {"batch": base.batch + round(dose)}


def longer_context(base: Settings, dose: float) -> dict[str, Any]:
    """More keys per request."""
    return {"context": base.context + GRAIN_TOKENS * round(dose / GRAIN_TOKENS)}


def more_prefills(base: Settings, dose: float) -> dict[str, Any]:
    """More steps with a prefill."""
    every = base.prefill_every
    return {"prefill_every": max(1, round(every / dose)) if dose else every}
