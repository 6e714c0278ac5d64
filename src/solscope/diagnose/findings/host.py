"""What both runs show of the host: its calls, operators and annotated sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solscope.diagnose.changes.decompose import Decomposition
from solscope.diagnose.findings.pairs import Pair, SectionPair, StepMeans
from solscope.diagnose.labels import idle_label
from solscope.diagnose.thresholds import Thresholds
from solscope.readers.packed import Observations

_BLOCKING = re.compile(
    r"(?i)synchronize|memcpy|copy|::item|_local_scalar|nonzero|::to$|::cpu$|GraphLaunch|malloc|free"
)
"""Host operators whose time is that of the GPU or of the allocator, not of the core."""


@dataclass(frozen=True)
class HostFindings:
    """Calls, operators and sections of both runs, per average step."""

    steps: StepMeans
    parts: Decomposition
    limits: Thresholds

    def calls(self, *kinds: str, alike: bool = False) -> Pair:
        """Runtime calls of these kinds per step, with `alike` per step of the same phases."""
        columns = [_calls_of(run, kinds) for run in self.steps.runs]
        return self.steps.alike(columns) if alike else self.steps.mean(columns)

    def more_calls(self, *kinds: str) -> bool:
        """True when calls of these kinds grew by a factor and by a number that count.

        A step with more GPU activities (more layers) has more of all calls; what counts is growth
        beyond that.
        """
        calls, limits = self.calls(*kinds), self.limits
        more = calls.abnormal - max(1.0, self.activities.ratio) * calls.normal
        return more >= limits.calls_more and more >= limits.calls_grew * calls.normal

    @cached_property
    def activities(self) -> Pair:
        """GPU activities per step."""
        return self.steps.mean([[step.activities for step in run.steps] for run in self.steps.runs])

    @cached_property
    def op_ratio(self) -> float | None:
        """Median over host operators of how much longer their typical call takes.

        An operator weighs as much as the time it took in the normal run. Null when too few
        operators are in common.
        """
        return operator_ratio(*self.steps.runs, self.limits)

    @cached_property
    def pace(self) -> float:
        """How much longer the host takes for the same code: the typical call of its operators.

        It differs between recordings of one program on one machine (shared caches, neighbors of a
        virtual machine), so that growth is measured against it; 1 when it is not known.
        """
        low, high = 1 / self.limits.most_pace, self.limits.most_pace
        return 1.0 if self.op_ratio is None else min(high, max(low, self.op_ratio))

    @cached_property
    def paced_ratio(self) -> float:
        """The ratio of step times that the host's pace alone would give."""
        waiting = self.parts.normal_by_family["host"]
        share = waiting / self.parts.normal_ms if self.parts.normal_ms else 0.0
        return 1 + share * (self.pace - 1)

    @cached_property
    def sections(self) -> list[SectionPair]:
        """Annotated sections of both runs, the one that grew most first."""
        names = dict.fromkeys(s.name for run in self.steps.runs for s in run.sections)
        out = []
        for name in names:
            own = self._of_section(name, lambda s: s.own_ns)
            in_ops = self._of_section(name, lambda s: s.op_ns)
            idle = self.steps.mean([_idle_of(run, name) for run in self.steps.runs])
            out.append(
                SectionPair(
                    name=name,
                    calls=self._of_section(name, lambda s: s.calls),
                    own_ms=Pair(own.normal / 1e6, own.abnormal / 1e6),
                    python_ms=Pair(
                        (own.normal - in_ops.normal) / 1e6, (own.abnormal - in_ops.abnormal) / 1e6
                    ),
                    idle_ms=Pair(idle.normal / 1e6, idle.abnormal / 1e6),
                    grown_ms=(idle.abnormal - self.pace * idle.normal) / 1e6,
                )
            )
        return sorted(out, key=lambda s: -s.grown_ms)

    def _of_section(self, name: str, values: Callable[..., list[int]]) -> Pair:
        sections = [
            next((s for s in run.sections if s.name == name), None) for run in self.steps.runs
        ]
        return self.steps.mean([[] if s is None else values(s) for s in sections])


def _calls_of(run: Observations, kinds: tuple[str, ...]) -> Iterable[float]:
    """Runtime calls of these kinds in each step."""
    lists = [np.array(c.calls) for c in run.host_calls if c.kind in kinds]
    return sum(lists) if lists else np.zeros(len(run.steps))  # type: ignore[return-value]


def operator_ratio(before: Observations, after: Observations, limits: Thresholds) -> float | None:
    """`HostFindings.op_ratio` of two runs, whose steps need not be matched."""
    sides = [
        {op.name: op for op in run.host_ops if op.calls >= limits.host_op_calls and op.p50_ns > 0}
        for run in (before, after)
    ]
    shared = [n for n in sides[0] if n in sides[1] and not _BLOCKING.search(n)]
    if len(shared) < limits.host_ops_shared:
        return None
    ratios = [sides[1][n].p50_ns / sides[0][n].p50_ns for n in shared]
    weights = [float(sides[0][n].calls * sides[0][n].p50_ns) for n in shared]
    return _weighted_median(ratios, weights)


def _weighted_median(values: list[float], weights: list[float]) -> float:
    order = np.argsort(values)
    running = np.cumsum(np.array(weights, dtype=np.float64)[order])
    return float(np.array(values)[order][np.searchsorted(running, running[-1] / 2)])


def _idle_of(run: Observations, section: str) -> list[float]:
    wanted = idle_label(section)
    tiles = [tile for tile in run.tiles if tile.kind == "idle" and tile.name == wanted]
    return list(tiles[0].ns) if tiles else []
