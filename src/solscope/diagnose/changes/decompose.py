"""The difference of step times, split into parts that add up to it exactly.

A component is one state of the GPU in one phase: `gemm`, `HtoD pageable`, `host:schedule`. Its time
per average step is N * d, calls times time per call, and

    delta(N * d) = mean(d) * delta(N) + mean(N) * delta(d)

splits its change into the effect of more calls and of longer calls without a rest (the midpoint
rule, which is Shapley's for two factors). N counts per average step, so that a phase which
occurs more often shows as more calls. Kernels are split class by class and summed by category.

By the same rule the whole difference is that of the mix, sum(mean(t) * delta(w)) over phases with
share w and step time t, and that within phases, sum(mean(w) * delta(t)). The steps of a phase that
is missing in one run would have taken as long in it: all of their time is the mix's.

An example: 10 calls of 2 ms become 12 calls of 3 ms, 20 ms become 36. More calls explain
2.5 * (12 - 10) = 5 ms of it, longer calls 11 * (3 - 2) = 11 ms, and 5 + 11 = 16, the difference.
With d of the normal run alone, 2 * 2 + 10 * 1 = 14 would leave a rest of 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from solscope.diagnose.labels import copy_kind
from solscope.diagnose.matching.units import Stratum, Units
from solscope.diagnose.statistics.two_samples import (
    Comparison,
    State,
    benjamini_hochberg,
    compare,
    state_of,
)
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.intervals import Int64s
from solscope.readers.packed import Observations, Tile
from solscope.resample import Floats, TwoSamples

Family = Literal[
    "compute", "comm", "memcpy", "host", "sync", "alloc", "gc", "io", "launch_wait", "unlinked"
]
FAMILIES: dict[str, str] = {
    "compute": "the GPU computes",
    "comm": "the GPU communicates and does nothing else",
    "memcpy": "the GPU copies and does nothing else",
    "host": "the GPU waits for the host to launch work",
    "sync": "the GPU waits while the host sits in a synchronizing call",
    "alloc": "the GPU waits while the host allocates or frees memory",
    "gc": "the GPU waits for a garbage collection of the host",
    "io": "the GPU waits for input or output of the host",
    "launch_wait": "work is launched, but does not start yet",
    "unlinked": "the GPU waits for an activity whose launch was not recorded",
}
"""What each family of components means."""
_CALLS_BEHIND = {
    "sync": ("sync",),
    "alloc": ("alloc", "free", "host_alloc"),
    "launch_call": ("launch", "graph_launch"),
    "launch_wait": ("launch", "graph_launch"),
}
"""Runtime calls counted as the calls of an idle component."""


class Component(msgspec.Struct, frozen=True):
    """One part of the step time, per average step of all phases compared."""

    component: str
    """`compute.gemm`, `comm.comm`, `memcpy.HtoD pageable`, `idle.host:schedule`."""
    phase: str | None
    family: str
    normal_ms: float
    abnormal_ms: float
    delta_ms: float
    count_effect_ms: float
    duration_effect_ms: float
    share_of_delta_pct: float | None
    """Null when the total difference is 0."""
    q: float | None
    """Mann-Whitney over steps, corrected for all components tested; null when not tested."""
    state: State
    low_ms: float | None
    """95 % interval of `delta_ms` over steps; null when not tested."""
    high_ms: float | None
    test: Comparison


@dataclass(frozen=True)
class Decomposition:
    """All components; they sum to the difference of the mean step times."""

    components: list[Component]
    normal_ms: float
    abnormal_ms: float
    mix_ms: float
    """Part of the difference that comes from phases occurring more or less often."""
    delta_ms: float = field(init=False)
    """Mean step time, abnormal minus normal."""
    by_family: dict[str, float] = field(init=False)
    """Difference in ms by family."""
    normal_by_family: dict[str, float] = field(init=False)
    """Normal time in ms by family."""

    def __post_init__(self) -> None:
        differences, normal = dict.fromkeys(FAMILIES, 0.0), dict.fromkeys(FAMILIES, 0.0)
        for component in self.components:
            differences[component.family] += component.delta_ms
            normal[component.family] += component.normal_ms
        object.__setattr__(self, "delta_ms", self.abnormal_ms - self.normal_ms)
        object.__setattr__(self, "by_family", differences)
        object.__setattr__(self, "normal_by_family", normal)


@dataclass(frozen=True)
class _Cell:
    """A component before it is tested: N and N * d on both sides, and its values step by step."""

    key: tuple[str, str]
    stratum: Stratum
    samples: TwoSamples
    weights: tuple[float, float]
    count_effect: float


def decompose(units: Units, limits: Thresholds = THRESHOLDS) -> Decomposition:
    """Split the difference between the compared steps of two runs."""
    cells = [cell for stratum in units.strata for cell in _cells(units, stratum)]
    weights = [_weights(units, stratum) for stratum in units.strata]
    walls = [_walls(units, stratum) for stratum in units.strata]
    totals = [
        sum(w[side] * t[side] for w, t in zip(weights, walls, strict=True)) for side in (0, 1)
    ]
    mix = sum((w[1] - w[0]) * (t[0] + t[1]) / 2 for w, t in zip(weights, walls, strict=True))
    tests = [compare(c.samples, limits.min_steps, limits.equivalence) for c in cells]
    q_values = benjamini_hochberg([test.p_mann_whitney for test in tests])
    delta = totals[1] - totals[0]
    components = [
        _component(cell, test, q, delta, limits)
        for cell, test, q in zip(cells, tests, q_values, strict=True)
    ]
    return Decomposition(
        components=sorted(components, key=lambda c: -abs(c.delta_ms)),
        normal_ms=totals[0] / 1e6,
        abnormal_ms=totals[1] / 1e6,
        mix_ms=mix / 1e6,
    )


def _walls(units: Units, stratum: Stratum) -> tuple[float, float]:
    """Mean step time on both sides; if one side has no such steps, the other side's is used."""
    normal = _average(units.normal.wall, stratum.normal)
    abnormal = units.factor * _average(units.abnormal.wall, stratum.abnormal)
    return (
        normal if stratum.normal.size else abnormal,
        abnormal if stratum.abnormal.size else normal,
    )


def _average(values: Sequence[int] | Floats, rows: Int64s) -> float:
    """Mean over rows; 0 for none."""
    return _mean(np.array(values, dtype=np.float64)[rows])


def _weights(units: Units, stratum: Stratum) -> tuple[float, float]:
    """Share of the stratum among all compared steps, on both sides."""
    counts = [(s.normal.size, s.abnormal.size) for s in units.strata]
    totals = [sum(c[side] for c in counts) for side in (0, 1)]
    return stratum.normal.size / totals[0], stratum.abnormal.size / totals[1]


def _cells(units: Units, stratum: Stratum) -> Iterable[_Cell]:
    runs = (units.normal.run, units.abnormal.run)
    rows = (stratum.normal, stratum.abnormal)
    scale = (1.0, units.factor)
    weights = _weights(units, stratum)
    tiles = [{(t.kind, t.name): t for t in run.tiles} for run in runs]
    for key in sorted({*tiles[0], *tiles[1]}):
        values = [scale[side] * _values(tiles[side].get(key), rows[side]) for side in (0, 1)]
        if values[0].any() or values[1].any():
            per_class = [_classes(runs[s], rows[s], key, scale[s] * weights[s]) for s in (0, 1)]
            calls = [weights[s] * _calls(runs[s], rows[s], key, scale[s]) for s in (0, 1)]
            totals = [weights[s] * _mean(values[s]) for s in (0, 1)]
            effect = _count_effect(per_class) if key[0] != "idle" else _by_midpoint(calls, totals)
            yield _Cell(key, stratum, TwoSamples(values[0], values[1]), weights, effect)


def _values(tile: Tile | None, rows: Int64s) -> Floats:
    if tile is None:
        return np.zeros(rows.size)
    return np.array(tile.ns, dtype=np.float64)[rows]


def _mean(values: Floats) -> float:
    """0 for no values: a phase that this side does not have."""
    return float(values.mean()) if values.size else 0.0


def _by_midpoint(calls: list[float], totals: list[float]) -> float:
    """mean(d) * delta(N); if one side has no calls, the other's d is used for both."""
    per_call = [t / n if n else None for n, t in zip(calls, totals, strict=True)]
    measured = [d for d in per_call if d is not None]
    return (calls[1] - calls[0]) * sum(measured) / len(measured) if measured else 0.0


def _classes(
    run: Observations, rows: Int64s, key: tuple[str, str], scale: float
) -> dict[tuple[str, str | None], tuple[float, float]]:
    """Calls and exposed time per average step of the kernel classes of a component."""
    kind, name = key
    out: dict[tuple[str, str | None], tuple[float, float]] = {}
    for kernel in run.kernels:
        group = kernel.category if kernel.category in ("comm", "memcpy") else "compute"
        if group != kind or (kind == "compute" and kernel.category != name):
            continue
        calls = scale * _average(kernel.calls, rows)
        spent = scale * _average(kernel.exposed_ns, rows)
        out[kernel.name, kernel.dtype] = (calls, spent)
    if kind == "memcpy":
        out = {k: v for k, v in out.items() if copy_kind(k[0]) == name}
    return out


def _count_effect(sides: list[dict[tuple[str, str | None], tuple[float, float]]]) -> float:
    effect = 0.0
    for key in {**sides[0], **sides[1]}:
        pair = [side.get(key, (0.0, 0.0)) for side in sides]
        effect += _by_midpoint([n for n, _ in pair], [t for _, t in pair])
    return effect


def _calls(run: Observations, rows: Int64s, key: tuple[str, str], scale: float) -> float:
    """Calls per unit behind idle time, `scale` steps each; 1, the unit itself, if there are none.

    A unit that was recorded in pieces is not more work for that.
    """
    kinds = _CALLS_BEHIND.get(key[1], ())
    if kinds:
        lists = [call.calls for call in run.host_calls if call.kind in kinds]
        return scale * sum(_average(calls, rows) for calls in lists)
    section = key[1].removeprefix("host:")
    lists = [s.calls for s in run.sections if s.name == section and key[1] != section]
    return scale * _average(lists[0], rows) if lists else 1.0


def family_of(key: tuple[str, str]) -> str:
    """Family of a component."""
    kind, name = key
    if kind != "idle":
        return kind
    return name if name in FAMILIES else "host"


def _component(
    cell: _Cell, test: Comparison, q: float | None, total: float, limits: Thresholds
) -> Component:
    before, after = (
        weight * _mean(values)
        for weight, values in zip(
            cell.weights, (cell.samples.before, cell.samples.after), strict=True
        )
    )
    delta = after - before
    bounds: tuple[float, float] | None = None
    if q is not None:
        bounds = cell.samples.difference(cell.weights)
    return Component(
        component=f"{cell.key[0]}.{cell.key[1]}",
        phase=cell.stratum.phase,
        family=family_of(cell.key),
        normal_ms=before / 1e6,
        abnormal_ms=after / 1e6,
        delta_ms=delta / 1e6,
        count_effect_ms=cell.count_effect / 1e6,
        duration_effect_ms=(delta - cell.count_effect) / 1e6,
        share_of_delta_pct=100 * delta / total if total else None,
        q=q,
        state=state_of(test, q, limits.fdr, limits.min_effect),
        low_ms=None if bounds is None else bounds[0] / 1e6,
        high_ms=None if bounds is None else bounds[1] / 1e6,
        test=test,
    )
