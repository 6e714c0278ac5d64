"""Findings: what two runs show, as numbers that a cause can ask for.

Everything is per average step of the phases compared. A number that the recordings do not give is
null, and a cause that asks for it gets no answer rather than a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from solscope.diagnose.changes.counters import CounterChange, compare_counters
from solscope.diagnose.changes.decompose import Decomposition, decompose
from solscope.diagnose.changes.outcome import Outcome, outcome_of
from solscope.diagnose.changes.tails import Tails, compare_tails
from solscope.diagnose.findings.gpu import GpuFindings
from solscope.diagnose.findings.host import HostFindings
from solscope.diagnose.findings.pairs import StepMeans
from solscope.diagnose.findings.sensors import SensorFindings
from solscope.diagnose.matching.units import Units, match
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.readers.packed import Observations


@dataclass(frozen=True)
class Findings:
    """Two runs, compared."""

    normal: Observations
    abnormal: Observations
    units: Units
    parts: Decomposition
    counters: list[CounterChange]
    outcome: Outcome
    tails: Tails
    limits: Thresholds
    delta_ms: float
    """Mean step time, abnormal minus normal."""
    gpu: GpuFindings
    """Kernels and copies."""
    host: HostFindings
    """Calls, operators and sections of the host."""
    sensors: SensorFindings
    """Counters."""

    def share(self, *families: str) -> float:
        """Part of the difference in these families of components; 0 when there is none."""
        if self.delta_ms == 0:
            return 0.0
        return sum(self.parts.by_family[family] for family in families) / self.delta_ms

    @cached_property
    def swapped(self) -> Findings | None:
        """The same runs with their roles exchanged; null when they must not be compared."""
        phases = self.units.phases
        return find(match(self.abnormal, self.normal, self.limits, phases=phases), self.limits)


def find(units: Units, limits: Thresholds = THRESHOLDS) -> Findings | None:
    """Compare two runs whose steps are matched; null when these must not be compared."""
    if units.comparable == "refuse":
        return None
    normal, abnormal = units.normal.run, units.abnormal.run
    parts, steps = decompose(units, limits), StepMeans(units)
    counters = compare_counters(normal, abnormal, limits)
    return Findings(
        normal=normal,
        abnormal=abnormal,
        units=units,
        parts=parts,
        counters=counters,
        outcome=outcome_of(units, parts, limits),
        tails=compare_tails(units, limits),
        limits=limits,
        delta_ms=parts.delta_ms,
        gpu=GpuFindings(steps, limits),
        host=HostFindings(steps, parts, limits),
        sensors=SensorFindings(counters, parts, limits),
    )
