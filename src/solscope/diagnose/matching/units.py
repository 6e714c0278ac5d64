"""Units first: which steps of two runs may be compared, and what was left out.

Steps of the same phase are compared, and of the same batch size where enough of them are. Steps
of a phase missing in the other run count in the difference if the mix clearly changed. The first
step of a recording and its last, steps that it shows in part and steps with too few activities are
left out. Runs whose unit of work differs by a constant factor (a step against a layer) are
converted, with the factor shown; unlike programs and unlike GPUs are refused.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from solscope.diagnose.matching.mix import Share, shares
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.intervals import Int64s
from solscope.readers.packed import Observations, Step
from solscope.resample import Floats, split_noise
from solscope.text import as_percent

ANNOTATION = "annotation"
"""`Run.found_by` of steps that the program itself marks."""
PROFILER = "slowed by the profiler itself"
"""Reason in `Side.dropped`."""
_PRODUCT = re.compile(r"::(mm|addmm|linear|_scaled_mm)$")
_MATRIX = re.compile(r"\[\d+,\d+\]")


@dataclass(frozen=True)
class Side:
    """One run, and which of its steps are fit to be compared."""

    run: Observations
    fit: Int64s
    """Indices of steps."""
    dropped: dict[str, int]
    """Steps left out, by reason."""
    interrupted: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Steps left out because the profiler itself interrupted them, by their indices."""
    profiled: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Steps that it interrupted and that count all the same, by their indices."""
    wall: Floats = field(init=False)
    """Wall time of every step of the run, ns."""

    def __post_init__(self) -> None:
        wall = np.array([step.wall_ns for step in self.run.steps], dtype=np.float64)
        object.__setattr__(self, "wall", wall)


@dataclass(frozen=True)
class Stratum:
    """Steps of one phase that are compared, or that only one run has."""

    phase: str | None
    normal: Int64s
    abnormal: Int64s
    tested: bool
    """False with too few steps for any test."""

    @property
    def common(self) -> bool:
        """True when both runs have such steps."""
        return self.normal.size > 0 and self.abnormal.size > 0


@dataclass(frozen=True)
class Batch:
    """Requests per step, if both runs state them."""

    phase: str | None
    normal: float
    abnormal: float
    shared: float
    """The part of both runs' steps whose batch size the other one has too."""
    steps: int
    """Steps that state their batch, in the run where fewer do."""
    spread: float
    """What steps of one run differ by, in the run where they differ more (middle half)."""


@dataclass(frozen=True)
class Units:
    """What is compared with what."""

    normal: Side
    abnormal: Side
    strata: list[Stratum]
    factor: float
    """Units of the abnormal run in one of the normal run; 1 when they are alike."""
    comparable: Literal["good", "weak", "refuse"]
    reasons: list[str]
    batches: list[Batch]
    mix: dict[str | None, Share]
    """Share of each phase among fit steps."""
    moved: list[str | None]
    """Phases whose share changed by enough to matter; empty when the mix is the same."""
    noise: float | None
    """Noise inside the normal run, as a fraction; null when it is too short."""
    phases: tuple[str | None, ...] | None = None
    """Phases that were asked for; null for all."""
    common: list[Stratum] = field(init=False)
    """Phases that both runs have: only they can be compared like for like."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "common", [s for s in self.strata if s.common])

    @property
    def name(self) -> str:
        """The unit, for reading."""
        if anchor := self.normal.run.anchor:
            return f"cycle of {anchor}"
        phases = " and ".join(s.phase or "unnamed" for s in self.strata) or "no"
        return f"{phases} step, start to start"

    def counted(self, steps: int) -> str:
        """So many units, for reading: `33 decode steps`."""
        if anchor := self.normal.run.anchor:
            return f"{steps:,} {'cycle' if steps == 1 else 'cycles'} of {anchor}"
        phases = " and ".join(s.phase for s in self.strata if s.phase)
        words = (f"{steps:,}", phases, "step" if steps == 1 else "steps")
        return " ".join(word for word in words if word)

    @property
    def sure_moves(self) -> list[str | None]:
        """Those of `moved` that are significant."""
        return [phase for phase in self.moved if self.mix[phase].sure]

    @property
    def matched(self) -> tuple[float, float]:
        """Share of fit steps that are compared like for like, in each run."""
        sides = (self.normal, self.abnormal)
        counts = [
            sum(s.normal.size for s in self.common),
            sum(s.abnormal.size for s in self.common),
        ]
        return tuple(c / max(1, s.fit.size) for c, s in zip(counts, sides, strict=True))  # type: ignore[return-value]


def match(
    normal: Observations,
    abnormal: Observations,
    limits: Thresholds = THRESHOLDS,
    *,
    phases: tuple[str | None, ...] | None = None,
) -> Units:
    """Match the steps of two runs; with `phases`, of these alone."""
    before, after = left_out_alike([fit_steps(run, limits, phases) for run in (normal, abnormal)])
    sides = (before, after)
    seen = [[s.run.steps[i].phase for i in s.fit] for s in sides]
    mix = shares(seen[0], seen[1], limits)
    moved = [phase for phase, share in mix.items() if share.shift >= limits.mix_shift]
    strata = _strata(sides, limits, every=bool(moved))
    factor, reasons = _factor(sides, strata, limits)
    reasons += _cut_off(sides)
    refusals = _refusals(sides, strata, factor, limits)
    if strata and factor == 1.0 and any(mix[phase].sure for phase in moved):
        alone = _alone(sides)
        strata += alone
        reasons += [_only_in_one(stratum) for stratum in alone]
    comparable: Literal["good", "weak", "refuse"] = "good"
    if refusals:
        comparable = "refuse"
    elif reasons or not any(s.tested for s in strata):
        comparable = "weak"
    noises = [
        n
        for s in strata
        if s.tested
        and (n := split_noise(sides[0].wall[s.normal], limits.noise_quantile)) is not None
    ]
    return Units(
        normal=sides[0],
        abnormal=sides[1],
        strata=strata,
        factor=factor,
        comparable=comparable,
        reasons=refusals + reasons,
        batches=batches_of(sides),
        mix=mix,
        moved=moved,
        noise=min(noises) if noises else None,
        phases=phases,
    )


def fit_steps(
    run: Observations, limits: Thresholds, phases: tuple[str | None, ...] | None = None
) -> Side:
    """The steps of a run that are whole and usual; with `phases`, of these alone."""
    dropped: Tally[str] = Tally()
    fit = []
    usual = _usual(run.steps)
    for index, step in enumerate(run.steps):
        if phases is not None and step.phase not in phases:
            continue
        if not step.whole:
            dropped["cut by the recording's edge"] += 1
        elif index == 0 and len(run.steps) > 2:
            dropped["first step of the recording"] += 1
        elif step.activities < limits.whole_step * usual.get(step.phase, 0):
            dropped["fewer activities than usual"] += 1
        else:
            fit.append(index)
    rows = np.array(fit, dtype=np.int64)
    side = Side(run, rows, dict(dropped))
    return _leave_out(side, rows[_interrupted(run.steps, limits)[rows]], limits)


def _leave_out(side: Side, hit: Int64s, limits: Thresholds) -> Side:
    """Without the steps that the profiler slowed, in the phases where enough others remain."""
    slowed, out = [], []
    for phase in {side.run.steps[i].phase for i in hit.tolist()}:
        rows = _of_phase(side, phase)
        walls, mine = side.wall[rows], np.isin(rows, hit)
        typical = float(np.median(walls if mine.all() else walls[~mine]))
        chosen = rows[mine & (walls <= limits.profiler_slows * typical)].tolist()
        slowed += chosen
        few = len(chosen) <= limits.profiler_steps * rows.size
        if few and rows.size - len(chosen) >= limits.min_steps:
            out += chosen
    if side.fit.size - len(out) < limits.tail_steps:
        out = []
    return _without(side, sorted(slowed), sorted(out))


def _without(side: Side, slowed: list[int], out: list[int]) -> Side:
    """Of the steps that the profiler slowed, some are left out of a side that has all of them."""
    left = np.array(out, dtype=np.int64)
    dropped = {**side.dropped, **({PROFILER: left.size} if left.size else {})}
    profiled = np.setdiff1d(np.array(slowed, dtype=np.int64), left)
    return Side(side.run, np.setdiff1d(side.fit, left), dropped, left, profiled)


def left_out_alike(sides: Sequence[Side]) -> list[Side]:
    """Where one side keeps such steps of a phase, all do: else only that one would be slower."""
    phases = {side.run.steps[i].phase for side in sides for i in side.profiled.tolist()}
    return [_with_those_of(side, phases) for side in sides]


def with_profiled(side: Side) -> Side:
    """The side with all steps that the profiler slowed."""
    return _with_those_of(side, {step.phase for step in side.run.steps})


def _with_those_of(side: Side, phases: set[str | None]) -> Side:
    slowed = np.union1d(side.interrupted, side.profiled).tolist()
    out = [i for i in side.interrupted.tolist() if side.run.steps[i].phase not in phases]
    if len(out) == side.interrupted.size:
        return side
    others = {reason: n for reason, n in side.dropped.items() if reason != PROFILER}
    return _without(Side(side.run, np.union1d(side.fit, side.interrupted), others), slowed, out)


def _interrupted(steps: list[Step], limits: Thresholds) -> npt.NDArray[np.bool_]:
    """Steps in which the profiler was at work, and those after them."""
    own = np.array([step.profiler_ns for step in steps], dtype=np.float64)
    wall = np.array([step.wall_ns for step in steps], dtype=np.float64)
    hit = (own > 0) & (own >= limits.profiler_part * wall)
    hit[1:] |= hit[:-1].copy()
    return hit


def _usual(steps: list[Step]) -> dict[str | None, int]:
    """Modal number of activities by phase; none where most steps would fall below it."""
    usual = {}
    for phase in {step.phase for step in steps}:
        counts = Tally(s.activities for s in steps if s.phase == phase and s.whole)
        if not counts:
            continue
        mode = max(counts, key=lambda count: (counts[count], count))
        if sum(n for count, n in counts.items() if count >= mode) * 2 >= counts.total():
            usual[phase] = mode
    return usual


def _of_phase(side: Side, phase: str | None) -> Int64s:
    return np.array([i for i in side.fit if side.run.steps[i].phase == phase], dtype=np.int64)


def _phases(sides: tuple[Side, Side]) -> list[str | None]:
    return list(dict.fromkeys(step.phase for side in sides for step in side.run.steps))


def _strata(sides: tuple[Side, Side], limits: Thresholds, *, every: bool) -> list[Stratum]:
    """Phases with enough steps on both sides.

    All phases in common when none has enough, and for `every`, which is asked for when the mix of
    phases changed: what occurs more often is then part of the answer.
    """
    strata = []
    for phase in _phases(sides):
        normal, abnormal = (_of_phase(side, phase) for side in sides)
        if normal.size and abnormal.size:
            normal, abnormal = _same_batch(sides, normal, abnormal, limits)
            enough = min(normal.size, abnormal.size) >= limits.min_steps
            strata.append(Stratum(phase, normal, abnormal, enough))
    tested = [s for s in strata if s.tested]
    return strata if every else tested or strata


def _alone(sides: tuple[Side, Side]) -> list[Stratum]:
    """Phases that only one run has."""
    alone = [
        Stratum(phase, _of_phase(sides[0], phase), _of_phase(sides[1], phase), tested=False)
        for phase in _phases(sides)
    ]
    return [s for s in alone if not s.common and s.normal.size + s.abnormal.size]


def _only_in_one(stratum: Stratum) -> str:
    size = stratum.normal.size + stratum.abnormal.size
    where = "normal" if stratum.normal.size else "abnormal"
    phase = stratum.phase or "unnamed"
    return f"{size} {phase} steps of the {where} run count in its mean; the other run has none"


def _same_batch(
    sides: tuple[Side, Side], normal: Int64s, abnormal: Int64s, limits: Thresholds
) -> tuple[Int64s, Int64s]:
    """Only steps of shared batch sizes, when these are most of both; else all.

    A step without a known batch (a graph replay hides shapes) may have any.
    """
    requests = [
        [side.run.steps[i].requests for i in rows.tolist()]
        for side, rows in zip(sides, (normal, abnormal), strict=True)
    ]
    stated = [set(column) - {None} for column in requests]
    if not all(stated):
        return normal, abnormal
    shared = (stated[0] & stated[1]) | {None}
    masks = [np.array([r in shared for r in column], dtype=bool) for column in requests]
    if all(mask.mean() >= limits.matched_share for mask in masks):
        return normal[masks[0]], abnormal[masks[1]]
    return normal, abnormal


def batches_of(sides: tuple[Side, Side]) -> list[Batch]:
    """Batch sizes of fit steps by phase, where both sides state them."""
    out = []
    for phase in dict.fromkeys(s.phase for s in sides[0].run.steps):
        columns = [
            [r for i in _of_phase(side, phase) if (r := side.run.steps[i].requests) is not None]
            for side in sides
        ]
        if all(columns):
            shared = set(columns[0]) & set(columns[1])
            parts = [sum(r in shared for r in column) / len(column) for column in columns]
            medians = [float(np.median(column)) for column in columns]
            steps = min(len(column) for column in columns)
            spread = max(middle_half(Tally(column)) for column in columns)
            out.append(Batch(phase, medians[0], medians[1], min(parts), steps, spread))
    return out


def middle_half(sizes: Mapping[int, int]) -> float:
    """How far the middle half of values reaches, from its least to its largest.

    They come with how often each is there. Counts come from files: values are not written out.
    """
    ordered = sorted((size, count) for size, count in sizes.items() if count > 0)
    total = sum(count for _, count in ordered)

    def at(number: int) -> int:
        """The value with this number, counted from 0."""
        for size, count in ordered:
            if number < count:
                return size
            number -= count
        return ordered[-1][0]

    def quantile(part: float) -> float:
        place = part * (total - 1)
        below = int(place)
        low, high = at(below), at(below + 1)
        return low + (place - below) * (high - low)

    return quantile(0.75) - quantile(0.25) if ordered else 0.0


def class_calls(run: Observations, rows: Int64s) -> dict[tuple[str, str], float]:
    """Mean calls per step of kernels by category and name."""
    out: dict[tuple[str, str], float] = {}
    for kernel in run.kernels:
        calls = float(np.array(kernel.calls)[rows].mean()) if rows.size else 0.0
        key = (kernel.category, kernel.name)
        out[key] = out.get(key, 0.0) + calls
    return {key: calls for key, calls in out.items() if calls > 0}


def _rows(strata: list[Stratum]) -> tuple[Int64s, Int64s]:
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *(s.normal for s in strata)]),
        np.concatenate([none, *(s.abnormal for s in strata)]),
    )


def _factor(
    sides: tuple[Side, Side], strata: list[Stratum], limits: Thresholds
) -> tuple[float, list[str]]:
    """How many abnormal units are one normal one, from the calls of shared kernels.

    Runs that name their unit alike, by annotations or by the same anchor, have the same one: if
    their steps hold more kernels, they do more work.
    """
    if _same_unit(sides):
        return 1.0, []
    calls = [class_calls(s.run, rows) for s, rows in zip(sides, _rows(strata), strict=True)]
    shared = [key for key in calls[0] if key in calls[1] and key[0] != "comm"]
    if not shared:
        return 1.0, []
    ratios = np.array([calls[0][key] / calls[1][key] for key in shared])
    weight = np.array([np.sqrt(calls[0][key] * calls[1][key]) for key in shared])
    order = np.argsort(ratios)
    middle = float(ratios[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])
    if 1 / limits.unit_factor <= middle <= limits.unit_factor:
        return 1.0, []
    agree = weight[np.abs(ratios / middle - 1) <= limits.unit_spread].sum() / weight.sum()
    covered = min(sum(c[key] for key in shared) / sum(c.values()) for c in calls)
    if agree < limits.unit_agree or covered < limits.matched_share:
        return 1.0, []
    return middle, [
        f"the runs were cut into unlike units: one normal unit holds {middle:.4g} abnormal ones "
        f"(calls of {len(shared)} shared kernels, {as_percent(agree)} of them agree); abnormal "
        "times are given per normal unit"
    ]


def _same_unit(sides: tuple[Side, Side]) -> bool:
    """True when both runs state what a step is, and state the same."""
    first, second = (side.run.run.found_by for side in sides)
    anchored = sides[0].run.anchor is not None
    return first == second and (anchored or first == ANNOTATION)


def _cut_off(sides: tuple[Side, Side]) -> list[str]:
    """Recordings that break off: what they show need not be typical of the run."""
    labels = ("normal", "abnormal")
    return [
        f"the {label} recording breaks off, so its steps may not be typical"
        for label, side in zip(labels, sides, strict=True)
        if any(text.startswith("truncated") for text in side.run.run.warnings)
    ]


def _refusals(
    sides: tuple[Side, Side], strata: list[Stratum], factor: float, limits: Thresholds
) -> list[str]:
    runs = [side.run.run for side in sides]
    if all(run.gpus for run in runs) and set(runs[0].gpus) != set(runs[1].gpus):
        models = [", ".join(run.gpus) for run in runs]
        return [f"recorded on different GPUs ({models[0]}; {models[1]})"]
    if not strata:
        return [_no_steps(sides)]
    rows = _rows(strata)
    calls = [class_calls(s.run, r) for s, r in zip(sides, rows, strict=True)]
    by_name = _overlap(calls, factor)
    by_category = _overlap([_by_category(c) for c in calls], factor)
    if by_name < limits.same_kernels and by_category < limits.same_categories:
        return [
            f"not the same program: {as_percent(by_name)} of the kernel calls of a step are in "
            f"common by name, {as_percent(by_category)} by category"
        ]
    anchors = [side.run.anchor for side in sides]
    if anchors[0] != anchors[1] and factor == 1.0 and by_name < limits.unit_agree:
        units = [anchor or "a step of the time line" for anchor in anchors]
        return [
            f"cut into unlike units ({units[0]}; {units[1]}), and the calls of their kernels agree "
            "on no factor between them"
        ]
    weights = [weights_of(side.run) for side in sides]
    shared = len(weights[0] & weights[1]) / max(1, len(weights[0] | weights[1]))
    if all(weights) and shared < limits.same_weights:
        shown = [", ".join(sorted(shapes)[:2]) for shapes in weights]
        return [f"not the same model: products with weights {shown[0]} against {shown[1]}"]
    return []


def weights_of(run: Observations) -> set[str]:
    """Shapes of weights from matrix products; they do not depend on the batch."""
    products = [op for op in run.host_ops if _PRODUCT.search(op.name)]
    shapes = [_MATRIX.findall(text) for op in products for text in op.shapes]
    return {shape[-1] for shape in shapes if len(shape) > 1}


def _no_steps(sides: tuple[Side, Side]) -> str:
    parts = []
    for label, side in zip(("normal", "abnormal"), sides, strict=True):
        phases = Tally(side.run.steps[i].phase or "unnamed" for i in side.fit)
        seen = ", ".join(f"{count} {phase}" for phase, count in phases.items()) or "none"
        parts.append(f"{label}: {seen} of {len(side.run.steps)}")
    return f"no whole steps of the same phase in both runs ({'; '.join(parts)})"


def _by_category(calls: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    out: dict[tuple[str, str], float] = {}
    for (category, _), count in calls.items():
        out[category, ""] = out.get((category, ""), 0.0) + count
    return out


def _overlap(calls: list[dict[tuple[str, str], float]], factor: float) -> float:
    keys = {**calls[0], **calls[1]}
    pairs = [(calls[0].get(k, 0.0), factor * calls[1].get(k, 0.0)) for k in keys]
    return sum(min(p) for p in pairs) / max(sum(max(p) for p in pairs), 1e-12)
