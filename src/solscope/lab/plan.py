"""What is recorded, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from solscope.lab.faults import faults
from solscope.lab.faults.base import Fault, Half
from solscope.lab.loop import Mode

Which = Literal["tune", "test", "all"]
STRENGTHS = (1, 2, 3)
AA_PER_MODE = 3
"""Pairs without a fault, per half and mode."""


@dataclass(frozen=True)
class Unit:
    """One normal recording and the abnormal ones that are compared with it."""

    fault: Fault
    mode: Mode
    half: Half
    strengths: tuple[int, ...]
    number: int = 0
    """Counts the units without a fault."""

    @property
    def name(self) -> str:
        number = f"-{self.number}" if self.number else ""
        return f"{self.half}-{self.mode}-{self.fault.name}{number}"


def plan(
    which: Which, modes: Sequence[Mode], strengths: Sequence[int], names: Sequence[str] = ()
) -> list[Unit]:
    """All units: each fault once in one mode, then in the other, with A/A pairs in between.

    Families alternate, and so do modes; a run that is cut short is therefore balanced.
    """
    halves: tuple[Half, ...] = ("tune", "test") if which == "all" else (which,)
    units: list[Unit] = []
    for half in halves:
        units += _half(half, modes, tuple(strengths), names)
    return units


def _half(
    half: Half, modes: Sequence[Mode], strengths: tuple[int, ...], names: Sequence[str]
) -> list[Unit]:
    chosen = [faults().get(name) for name in names] or list(faults())
    real = [fault for fault in chosen if fault.half == half and fault.family != "none"]
    turns = [
        Unit(fault, modes[(place + turn) % len(modes)], half, strengths)
        for turn in range(len(modes))
        for place, fault in enumerate(real)
        if modes[(place + turn) % len(modes)] in fault.modes
    ]
    nothing = [fault for fault in chosen if fault.family == "none"]
    pairs = [
        Unit(fault, mode, half, (0,), number)
        for fault in nothing
        for number in range(1, AA_PER_MODE + 1)
        for mode in modes
    ]
    return _spread(turns, pairs)


def _spread(units: list[Unit], among: list[Unit]) -> list[Unit]:
    """`units` with `among` between them, evenly."""
    if not among or not units:
        return units + among
    keyed = [((place + 0.5) / len(units), unit) for place, unit in enumerate(units)]
    keyed += [((place + 0.5) / len(among), unit) for place, unit in enumerate(among)]
    return [unit for _, unit in sorted(keyed, key=lambda pair: pair[0])]
