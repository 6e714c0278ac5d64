"""Findings: what two runs show, as numbers that a cause can ask for.

Everything is per average step of the phases compared. A number that the recordings do not give is
null, and a cause that asks for it gets no answer rather than a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solscope.diagnose.changes.counters import CounterChange, compare_counters
from solscope.diagnose.changes.decompose import Decomposition, decompose
from solscope.diagnose.changes.outcome import Outcome, outcome_of
from solscope.diagnose.findings.pairs import KernelPair, Pair, SectionPair
from solscope.diagnose.labels import copy_kind, idle_label
from solscope.diagnose.matching.units import Units
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.readers.packed import HostOp, KernelClass, Observations

_BLOCKING = re.compile(
    r"(?i)synchronize|memcpy|copy|::item|_local_scalar|nonzero|::to$|::cpu$|GraphLaunch|malloc|free"
)
"""Host operators whose time is that of the GPU or of the allocator, not of the core."""
_MIN_CALLS = 10


@dataclass(frozen=True)
class Findings:
    """Two runs, compared."""

    normal: Observations
    abnormal: Observations
    units: Units
    parts: Decomposition
    counters: list[CounterChange]
    outcome: Outcome
    limits: Thresholds

    # --- Sides and means

    def mean(self, values: Callable[[Observations], Iterable[float]]) -> Pair:
        """Mean per compared step of a per-step list, on both sides."""
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            rows = np.concatenate([(s.normal, s.abnormal)[side] for s in self.units.strata])
            column = np.array(list(values((self.normal, self.abnormal)[side])), dtype=np.float64)
            out.append(scale * float(column[rows].mean()) if column.size else 0.0)
        return Pair(*out)

    def alike(self, values: Callable[[Observations], Iterable[float]]) -> Pair:
        """The same for phases that both runs have, in the shares of the normal run."""
        strata = self.units.common
        total = sum(s.normal.size for s in strata)
        out = []
        for side, scale in ((0, 1.0), (1, self.units.factor)):
            column = np.array(list(values((self.normal, self.abnormal)[side])), dtype=np.float64)
            rows = [(s.normal, s.abnormal)[side] for s in strata]
            means = [float(column[at].mean()) if column.size else 0.0 for at in rows]
            shares = [s.normal.size / total for s in strata]
            out.append(scale * sum(w * m for w, m in zip(shares, means, strict=True)))
        return Pair(*out)

    @cached_property
    def delta_ms(self) -> float:
        """Mean step time, abnormal minus normal."""
        return self.parts.delta_ms

    def share(self, *families: str) -> float:
        """Part of the difference in these families of components; 0 when there is none."""
        if self.delta_ms == 0:
            return 0.0
        return sum(self.parts.by_family[family] for family in families) / self.delta_ms

    # --- Kernels

    @cached_property
    def kernels(self) -> list[KernelPair]:
        """All kernel classes of both runs."""
        sides = [
            {(k.category, k.name, k.dtype): k for k in run.kernels}
            for run in (self.normal, self.abnormal)
        ]
        out = []
        for key in {**sides[0], **sides[1]}:
            pair = [side.get(key) for side in sides]
            calls = self._per_kernel(pair, lambda kernel: kernel.calls)
            if not (calls.normal or calls.abnormal):
                continue
            spent = self._per_kernel(pair, lambda kernel: kernel.ns)
            grids = [_usual_grid(kernel) for kernel in pair]
            known = None not in grids
            blocks = [_blocks(grid) for grid in grids if grid is not None]
            out.append(
                KernelPair(
                    *key,
                    calls=calls,
                    ms=Pair(spent.normal / 1e6, spent.abnormal / 1e6),
                    per_call=Pair(*((k.p50_ns / 1e3 if k else 0.0) for k in pair)),
                    same_grid=grids[0] == grids[1] if known else None,
                    blocks=Pair(*blocks) if known else None,
                )
            )
        return out

    def _per_kernel(
        self, pair: list[KernelClass | None], values: Callable[[KernelClass], list[int]]
    ) -> Pair:
        def of(run: Observations) -> Iterable[float]:
            kernel = pair[0 if run is self.normal else 1]
            return [] if kernel is None else values(kernel)

        return self.mean(of)

    def kernel_time(self, *categories: str) -> Pair:
        """GPU time per step, ms, of categories (all compute when none is given)."""
        chosen = [
            k
            for k in self.kernels
            if (k.category in categories if categories else k.category not in ("comm", "memcpy"))
        ]
        return Pair(sum(k.ms.normal for k in chosen), sum(k.ms.abnormal for k in chosen))

    def per_call_ratio(
        self, *categories: str, same_grid: bool = False, mean: bool = False
    ) -> float | None:
        """Time of the same calls, abnormal over normal, over classes that both runs have.

        It is that of the median call of each class, or with `mean` that of all its calls.
        """
        chosen = [
            k
            for k in self.kernels
            if k.shared
            and (k.category in categories if categories else k.category not in ("comm", "memcpy"))
            and k.per_call.normal > 0
            and (k.same_grid is not False or not same_grid)
        ]
        before = sum(k.ms.normal for k in chosen)
        if not before:
            return None
        if mean:
            return sum(k.ms.abnormal * k.calls.normal / k.calls.abnormal for k in chosen) / before
        return sum(k.ms.normal * k.per_call.ratio for k in chosen) / before

    @cached_property
    def slow_categories(self) -> dict[str, float]:
        """Time per call by category, abnormal over normal, of categories that matter."""
        total = self.kernel_time().normal
        out = {}
        for category in dict.fromkeys(k.category for k in self.kernels):
            ratio = self.per_call_ratio(category)
            matters = self.kernel_time(category).normal > 0.01 * total
            if matters and ratio is not None and category not in ("comm", "memcpy", "memset"):
                out[category] = ratio
        return out

    @cached_property
    def new_kernel_ms(self) -> float:
        """GPU time per abnormal step in kernels that the normal run does not have."""
        return sum(k.ms.abnormal for k in self._computing if not k.calls.normal)

    @cached_property
    def lost_kernel_ms(self) -> float:
        """GPU time per normal step in kernels that the abnormal run does not have."""
        return sum(k.ms.normal for k in self._computing if not k.calls.abnormal)

    @cached_property
    def _computing(self) -> list[KernelPair]:
        return [k for k in self.kernels if k.category not in ("memcpy", "memset", "comm")]

    # --- Calls of the host

    def calls(self, *kinds: str, alike: bool = False) -> Pair:
        """Runtime calls of these kinds per step, with `alike` per step of the same phases."""

        def of(run: Observations) -> Iterable[float]:
            lists = [np.array(c.calls) for c in run.host_calls if c.kind in kinds]
            return sum(lists) if lists else np.zeros(len(run.steps))  # type: ignore[return-value]

        return self.alike(of) if alike else self.mean(of)

    def more_calls(self, *kinds: str) -> bool:
        """True when calls of these kinds grew by a factor and by a number that count."""
        calls = self.calls(*kinds)
        limits = self.limits
        return calls.delta >= limits.calls_more and calls.delta >= limits.calls_grew * calls.normal

    def copies(self, wanted: Callable[[str], bool]) -> tuple[Pair, Pair]:
        """Calls and ms per step of copies whose kind is wanted."""
        chosen = [k for k in self.kernels if k.category == "memcpy" and wanted(copy_kind(k.name))]
        return (
            Pair(sum(k.calls.normal for k in chosen), sum(k.calls.abnormal for k in chosen)),
            Pair(sum(k.ms.normal for k in chosen), sum(k.ms.abnormal for k in chosen)),
        )

    @cached_property
    def copy_bandwidth(self) -> dict[str, Pair]:
        """GB/s of copies between host and device, by kind, where both runs copy."""
        out = {}
        sides = [_copy_totals(run) for run in (self.normal, self.abnormal)]
        for kind in sides[0]:
            if kind in sides[1] and kind.startswith(("HtoD", "DtoH")):
                (bytes_n, ns_n), (bytes_a, ns_a) = sides[0][kind], sides[1][kind]
                if min(bytes_n, ns_n, bytes_a, ns_a) > 0:
                    out[kind] = Pair(bytes_n / ns_n, bytes_a / ns_a)
        return out

    # --- Host operators and sections

    @cached_property
    def host_ops(self) -> Pair | None:
        """Ratios of time per call of host operators: their medians, and their means."""
        sides = [
            {op.name: op for op in run.host_ops if op.calls >= _MIN_CALLS and op.p50_ns > 0}
            for run in (self.normal, self.abnormal)
        ]
        shared = [n for n in sides[0] if n in sides[1] and not _BLOCKING.search(n)]
        if len(shared) < 3:
            return None

        def middle(value: Callable[[HostOp], int]) -> float:
            ratios = [value(sides[1][n]) / value(sides[0][n]) for n in shared]
            weights = [float(sides[0][n].calls * sides[0][n].p50_ns) for n in shared]
            return _weighted_median(ratios, weights)

        return Pair(middle(lambda op: op.p50_ns), middle(lambda op: op.mean_ns))

    @cached_property
    def pace(self) -> float:
        """How much longer the host takes for the same code: the typical call of its operators.

        It differs between recordings of one program on one machine (shared caches, neighbors of a
        virtual machine), so that growth is measured against it; 1 when it is not known.
        """
        low, high = 1 / self.limits.most_pace, self.limits.most_pace
        return 1.0 if self.host_ops is None else min(high, max(low, self.host_ops.normal))

    @cached_property
    def paced_ratio(self) -> float:
        """The ratio of step times that the host's pace alone would give."""
        waiting = self.parts.normal_by_family["host"]
        share = waiting / self.parts.normal_ms if self.parts.normal_ms else 0.0
        return 1 + share * (self.pace - 1)

    @cached_property
    def sections(self) -> list[SectionPair]:
        """Annotated sections of both runs, the one that grew most first."""
        names = dict.fromkeys(s.name for run in (self.normal, self.abnormal) for s in run.sections)
        out = []
        for name in names:
            own = self._of_section(name, lambda s: s.own_ns)
            in_ops = self._of_section(name, lambda s: s.op_ns)
            idle = self.mean(lambda run, name=name: _idle_of(run, name))  # type: ignore[misc]
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
        def of(run: Observations) -> Iterable[float]:
            found = [s for s in run.sections if s.name == name]
            return values(found[0]) if found else []

        return self.mean(of)

    # --- Counters

    def counter(self, name: str, *, tested: bool = False) -> Pair | None:
        """A host or GPU counter in its unit; null if a side has none or too few samples.

        Of several GPUs the one that changed most.
        """
        least = self.limits.min_samples_tested if tested else 1
        found = [
            Pair(c.normal, c.abnormal)
            for c in self.counters
            if c.name == name
            and c.normal is not None
            and c.abnormal is not None
            and min(c.test.n) >= least
        ]
        return max(found, key=lambda pair: abs(pair.delta)) if found else None

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
        if rate is None or self.delta_ms <= 0:
            return None
        spent = Pair(
            rate.normal / 100 * self.parts.normal_ms, rate.abnormal / 100 * self.parts.abnormal_ms
        )
        return spent.delta / self.delta_ms

    @cached_property
    def blocked(self) -> Pair | None:
        """Percent of time in which the main thread neither ran nor waited for a core."""
        on, queue = self.counter("oncpu_ns"), self.counter("runq_ns")
        if on is None or queue is None:
            return None
        return Pair(
            max(0.0, 100 - on.normal - queue.normal), max(0.0, 100 - on.abnormal - queue.abnormal)
        )

    @cached_property
    def blocked_of_added(self) -> float | None:
        """Part of the added wall time in which the main thread was blocked."""
        if self.blocked is None or self.delta_ms <= 0:
            return None
        spent = Pair(
            self.blocked.normal / 100 * self.parts.normal_ms,
            self.blocked.abnormal / 100 * self.parts.abnormal_ms,
        )
        return spent.delta / self.delta_ms

    @cached_property
    def other_threads(self) -> Pair | None:
        """Cores that other threads of the process used."""
        process, main = self.counter("process_cpu_ns"), self.counter("oncpu_ns")
        if process is None:
            process = self.counter("process_cpu_usage")
        if process is None or main is None:
            return None
        return Pair(
            max(0.0, process.normal - main.normal) / 100,
            max(0.0, process.abnormal - main.abnormal) / 100,
        )


def find(units: Units, limits: Thresholds = THRESHOLDS) -> Findings | None:
    """Compare two runs whose steps are matched; null when these must not be compared."""
    if units.comparable == "refuse":
        return None
    normal, abnormal = units.normal.run, units.abnormal.run
    parts = decompose(units, limits)
    return Findings(
        normal=normal,
        abnormal=abnormal,
        units=units,
        parts=parts,
        counters=compare_counters(normal, abnormal, limits),
        outcome=outcome_of(units, parts, limits),
        limits=limits,
    )


def _weighted_median(values: list[float], weights: list[float]) -> float:
    order = np.argsort(values)
    running = np.cumsum(np.array(weights, dtype=np.float64)[order])
    return float(np.array(values)[order][np.searchsorted(running, running[-1] / 2)])


def _usual_grid(kernel: KernelClass | None) -> str | None:
    return None if kernel is None or not kernel.grids else next(iter(kernel.grids))


def _blocks(grid: str) -> float:
    sizes = [int(part) for part in re.findall(r"\d{1,10}", grid)]
    return float(np.prod(sizes, dtype=np.float64)) if sizes else 0.0


def _copy_totals(run: Observations) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for kernel in run.kernels:
        if kernel.category == "memcpy":
            kind = copy_kind(kernel.name)
            size, spent = out.get(kind, (0, 0))
            out[kind] = (size + kernel.bytes, spent + sum(kernel.ns))
    return out


def _idle_of(run: Observations, section: str) -> list[float]:
    wanted = idle_label(section)
    found = [tile for tile in run.tiles if tile.kind == "idle" and tile.name == wanted]
    return list(found[0].ns) if found else []
