"""What the sensors of both runs show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from solscope.diagnose.changes.counters import CounterChange
from solscope.diagnose.changes.decompose import Decomposition
from solscope.diagnose.findings.pairs import Pair
from solscope.diagnose.thresholds import Thresholds


@dataclass(frozen=True)
class SensorFindings:
    """Counters of both runs, and what the scheduler's say of the added time."""

    changes: list[CounterChange]
    parts: Decomposition
    limits: Thresholds

    def counter(self, name: str) -> Pair | None:
        """A host or GPU counter in its unit; null if a side has no sample.

        Of several GPUs the one that changed most.
        """
        changes = [
            Pair(c.normal, c.abnormal)
            for c in self.changes
            if c.name == name and c.normal is not None and c.abnormal is not None
        ]
        return max(changes, key=lambda pair: abs(pair.delta)) if changes else None

    def unit(self, name: str) -> str | None:
        """The unit of a counter; null if no side has it."""
        return next((c.unit for c in self.changes if c.name == name), None)

    def per_step(self, name: str) -> Pair | None:
        """A counter that grows, per step and in its own unit times seconds."""
        rate = self.counter(name)
        if rate is None:
            return None
        walls = self.parts.normal_ms / 1e3, self.parts.abnormal_ms / 1e3
        return Pair(rate.normal * walls[0], rate.abnormal * walls[1])

    def of_added_time(self, name: str) -> float | None:
        """Part of the added wall time that a counter of nanoseconds accounts for."""
        rate = self.counter(name)
        if rate is None or self.parts.delta_ms <= 0:
            return None
        spent = Pair(
            rate.normal / 100 * self.parts.normal_ms, rate.abnormal / 100 * self.parts.abnormal_ms
        )
        return spent.delta / self.parts.delta_ms

    @cached_property
    def of_all_threads(self) -> bool:
        """Whether the scheduler's counts are sums over threads: one runs 100 % of time at most."""
        on = self.counter("oncpu_ns")
        return on is not None and max(on.normal, on.abnormal) > 100 * (1 + self.limits.min_effect)

    @cached_property
    def running_of_added(self) -> float | None:
        """Part of the added wall time in which the main thread ran; null if it is not known."""
        return None if self.of_all_threads else self.of_added_time("oncpu_ns")

    @cached_property
    def blocked(self) -> Pair | None:
        """Percent of time in which the main thread neither ran nor waited for a core."""
        on, queue = self.counter("oncpu_ns"), self.counter("runq_ns")
        if on is None or queue is None or self.of_all_threads:
            return None
        return Pair(
            max(0.0, 100 - on.normal - queue.normal), max(0.0, 100 - on.abnormal - queue.abnormal)
        )

    @cached_property
    def blocked_of_added(self) -> float | None:
        """Part of the added wall time in which the main thread was blocked."""
        if self.blocked is None or self.parts.delta_ms <= 0:
            return None
        spent = Pair(
            self.blocked.normal / 100 * self.parts.normal_ms,
            self.blocked.abnormal / 100 * self.parts.abnormal_ms,
        )
        return spent.delta / self.parts.delta_ms

    @cached_property
    def other_threads(self) -> Pair | None:
        """Cores that other threads of the process used."""
        process, main = self.counter("process_cpu_ns"), self.counter("oncpu_ns")
        if process is None:
            process = self.counter("process_cpu_usage")
        if process is None or main is None or self.of_all_threads:
            return None
        return Pair(
            max(0.0, process.normal - main.normal) / 100,
            max(0.0, process.abnormal - main.abnormal) / 100,
        )
