"""The steps that a work list is about."""

from __future__ import annotations

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis, UsualSteps, recording_basis, usual_steps
from solscope.views.device_time import device_times
from solscope.views.typical_step import TypicalStep, typical_step


class Window(msgspec.Struct, frozen=True):
    """The usual steps of one phase; without steps, the recording."""

    basis: StepBasis
    phase: str | None
    count: int
    """Steps of all devices, which sums are divided by; at least 1."""
    step_ns: float
    usual: UsualSteps | None
    """Null where nothing has a time."""
    typical: TypicalStep | None
    """What such a step is made of; null where nothing has a time."""

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of these steps; all of them when there are none."""
        if self.usual is None:
            return rows
        return rows.filter(pl.col("step").is_in(self.usual.numbers))

    def per_step(self, nanoseconds: float) -> float:
        """A sum over all steps and devices as µs per step and device."""
        return nanoseconds / 1e3 / self.count

    def pct(self, time_us: float) -> float:
        return 100e3 * time_us / self.step_ns if self.step_ns else 0.0


def step_window(attributed: Attributed) -> Window:
    """The usual steps of the phase that takes most time; the recording where there is none."""
    return step_windows(attributed)[0]


def step_windows(attributed: Attributed) -> list[Window]:
    """The same for each phase, that with most time first."""
    times = device_times(attributed)
    phases: list[UsualSteps | None] = [*usual_steps(attributed)]
    windows = []
    for usual in phases or [None]:
        step = typical_step(attributed, times, usual)
        windows.append(
            Window(
                basis=recording_basis(0.0) if step is None else step.basis,
                phase=None if usual is None else usual.phase,
                count=1 if step is None else step.device_steps,
                step_ns=0.0 if step is None else step.wall_ns,
                usual=usual,
                typical=step,
            )
        )
    return windows
