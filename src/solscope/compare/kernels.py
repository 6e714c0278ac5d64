"""What got slower, kernel by kernel: two profiles, their kernels matched as the same work.

Times are per step and GPU over the usual steps of a phase, as in `compare`. Each kernel is in
one row, so the differences of all rows sum to the difference in GPU time. With enough steps on both
sides a row has an interval; rows whose interval contains 0 are noise. Profiles without steps of a
common phase are compared as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis
from solscope.compare.gate import MIN_STEPS
from solscope.compare.kernel_alignment import align, numbered
from solscope.compare.kernel_matching import (
    Context,
    Item,
    Match,
    MatchedBy,
    family_of,
    match_items,
)
from solscope.compare.profiles import chosen_phases, comparison_warnings
from solscope.compare.units import ComparedPhase, Unit, steps_unit
from solscope.errors import UsageError
from solscope.intervals import Int64s
from solscope.profile import ProfileWarning
from solscope.resample import Floats, TwoSamples

Relation = Literal["same", "replaced", "split", "fused", "changed", "new", "gone"]

_FACTS = ("kind", "group", "role", "name")
"""Activities that agree in these are one item."""


class KernelUse(msgspec.Struct, frozen=True):
    """One kernel of one profile."""

    name: str
    calls_per_step: float
    mean_us: float
    total_ns: int
    """Durations over all steps compared, on all GPUs."""
    absorbed: bool
    """Matched since the other side's new name has its words, such as `silu`."""


class KernelChange(msgspec.Struct, frozen=True):
    """The same work in both profiles, or work that only one has."""

    relation: Relation
    """`same`: the same names; `replaced`: one kernel by one other; `split`: one by several;
    `fused`: several by one; `changed`: several by several; `new` and `gone`: in one only."""
    matched_by: MatchedBy | None
    """Null for `new` and `gone`."""
    group: str | None
    role: str | None
    category: str
    before: list[KernelUse]
    after: list[KernelUse]
    before_ms: float
    """Per step and GPU."""
    after_ms: float
    diff_ms: float
    low_ms: float | None
    """Bounds of the 95 % interval of the difference; null with fewer than 5 steps on a side."""
    high_ms: float | None
    differs: bool | None
    """Whether 0 is outside the interval; null when it is not known."""


class PhaseKernels(ComparedPhase, frozen=True):
    """The kernels of one phase."""

    steps: list[int | None]
    """Usual steps, before and after; null for totals."""
    basis: list[StepBasis]
    """These steps of each side, and which ones were left out; empty for totals."""
    devices: list[int | None]
    """GPUs that worked in them; null for totals."""
    before_ms: float
    """GPU time per step and GPU, or in total: the sum of the rows."""
    after_ms: float
    diff_ms: float
    matched_pct: list[float]
    """Share of each side's GPU time in rows that both have."""
    rows: list[KernelChange]
    """The largest difference first."""


class KernelComparison(msgspec.Struct, frozen=True):
    """Kernels of two profiles."""

    before: str
    """Path of the profile."""
    after: str
    phases: list[PhaseKernels]
    warnings: list[ProfileWarning]


def compare_kernels(
    before: Attributed, after: Attributed, *, phase: str | None = None
) -> KernelComparison:
    """Match the kernels of two profiles, phase by phase, and compare their times."""
    sides = (before, after)
    if any(side.profile.is_aggregate for side in sides):
        raise UsageError("a summary without a time line has no kernels to match; try compare")
    labels = ("before", "after")
    chosen = chosen_phases(sides, labels, phase)
    units = [[steps_unit(side, p) for side in sides] for p in chosen]
    if chosen:
        steps = [[_of_unit(*pair) for pair in zip(sides, row, strict=True)] for row in units]
        bases = [[unit.usual.basis for unit in row if unit.usual] for row in units]
        phases = [_phase(*phase) for phase in zip(chosen, bases, steps, strict=True)]
    else:
        phases = [_phase(None, [], [_whole(side) for side in sides])]
    return KernelComparison(
        before=before.profile.path,
        after=after.profile.path,
        phases=phases,
        warnings=list(comparison_warnings(sides, labels, phase, chosen, units)),
    )


@dataclass(frozen=True)
class _Steps:
    """The usual steps of one phase of one profile."""

    count: int
    devices: int
    table: pl.DataFrame
    """Activities by rank, device, step and start; `item` numbers group, role and name."""
    turn: Int64s
    """For each activity, which of the steps it belongs to, counted from 0."""
    whole: bool = False
    """Whether these are totals of a profile."""

    @property
    def per_step(self) -> int:
        """What totals are divided by."""
        return self.count * self.devices

    @cached_property
    def times(self) -> Floats:
        """Time of each item (rows) in each step (columns), per GPU."""
        cells = self.table["item"].to_numpy() * self.count + self.turn
        items = self.table["item"].n_unique()
        sums = np.bincount(cells, self.table["dur_ns"].to_numpy(), minlength=items * self.count)
        return sums.reshape(items, self.count) / self.devices


def _of_unit(attributed: Attributed, unit: Unit) -> _Steps:
    """The activities of the steps of a unit."""
    numbers = unit.steps["step"].to_list()
    table = _table(attributed, pl.col("step").is_in(numbers), pl.col("step"))
    turns = {step: turn for turn, step in enumerate(numbers)}
    turn = table["step"].replace_strict(turns, return_dtype=pl.Int64).to_numpy()
    return _Steps(unit.count, unit.devices, table, turn)


def _whole(attributed: Attributed) -> _Steps:
    """All activities, as totals; steps, where there are any, still tell their order."""
    table = _table(attributed, pl.lit(True), pl.col("step"))
    return _Steps(1, 1, table, np.zeros(table.height, np.int64), whole=True)


def _table(attributed: Attributed, wanted: pl.Expr, step: pl.Expr) -> pl.DataFrame:
    """The activities to compare, in order, with the number of their item."""
    texts = (*_FACTS, "category", "operator", "op", "input_dims", "grid", "block")
    return (
        attributed.activities.filter(wanted & pl.col("start_ns").is_not_null())
        .with_columns(step)
        .sort("rank", "device", "step", "start_ns", maintain_order=True)
        .select(
            "step",
            "rank",
            "device",
            pl.col("dur_ns").fill_null(0),
            *(pl.col(text).cast(pl.String) for text in texts),
        )
        .with_columns(pl.struct(_FACTS).rank("dense").cast(pl.Int64).alias("item") - 1)
    )


def _phase(phase: str | None, basis: list[StepBasis], sides: Sequence[_Steps]) -> PhaseKernels:
    """`basis`: the steps of each side; empty for whole profiles."""
    items = [_items(0, sides[0]), _items(1, sides[1])]

    def contexts(rows: dict[Item, int]) -> dict[Item, Context]:
        all_contexts: dict[Item, Context] = {}
        for steps, own in zip(sides, items, strict=True):
            all_contexts |= _contexts(steps, own, rows)
        return all_contexts

    numbers = [{item: number for number, item in enumerate(own)} for own in items]
    matches = match_items([*items[0], *items[1]], contexts, _aligned(sides, items))
    rows = [_row(match, sides, numbers) for match in matches]
    totals = [sum(item.total_ns for item in own) for own in items]
    matched = [0, 0]
    for item in (item for match in matches if match.matched_by for item in match.items):
        matched[item.side] += item.total_ns
    times = [total / steps.per_step / 1e6 for total, steps in zip(totals, sides, strict=True)]
    return PhaseKernels(
        phase=phase,
        per="step" if basis else "profile",
        steps=[steps.count if basis else None for steps in sides],
        basis=basis,
        devices=[steps.devices if basis else None for steps in sides],
        before_ms=times[0],
        after_ms=times[1],
        diff_ms=times[1] - times[0],
        matched_pct=[100 * m / t if t else 0.0 for m, t in zip(matched, totals, strict=True)],
        rows=sorted(rows, key=lambda row: (-abs(row.diff_ms), row.role or "", row.category)),
    )


def _items(side: Literal[0, 1], steps: _Steps) -> list[Item]:
    """The items of a side, at the position of their number."""

    def agreed(*columns: str) -> list[pl.Expr]:
        """The values of columns that all activities of an item share, else null."""
        same = pl.all_horizontal(pl.col(name).n_unique() == 1 for name in columns)
        return [
            pl.when(same).then(pl.col(name).first()).otherwise(None).alias(name) for name in columns
        ]

    grouped = (
        steps.table.group_by("item")
        .agg(
            *(pl.col(name).first() for name in (*_FACTS, "category", "operator")),
            *agreed("op", "input_dims"),
            *agreed("grid", "block"),
            pl.len().alias("calls"),
            pl.col("dur_ns").sum(),
        )
        .sort("item")
    )
    return [
        Item(
            side=side,
            kind=row["kind"],
            name=row["name"] or "",
            group=row["group"],
            role=row["role"],
            category=row["category"] or "other",
            operator=row["operator"],
            launched_by=None if row["op"] is None else (row["op"], row["input_dims"]),
            launch=None if row["grid"] is None else (row["grid"], row["block"]),
            calls=row["calls"],
            calls_per_step=row["calls"] / steps.per_step,
            total_ns=row["dur_ns"],
        )
        for row in grouped.iter_rows(named=True)
    ]


def _aligned(
    sides: Sequence[_Steps], items: Sequence[Sequence[Item]]
) -> dict[tuple[Item, Item], int]:
    """How often two items have the same place in a usual step of both sides.

    Empty unless half of the time of both steps is in pairs that agree in more than their place:
    another GPU or compiler launches other kernels, which order cannot match.
    """
    steps = min(product(*(_to_align(side) for side in sides)), key=_unlike)
    columns = [_properties(step) for step in steps]
    numbers = {name: numbered([column[name] for column in columns]) for name in columns[0]}
    pairs = align(*({name: values[side] for name, values in numbers.items()} for side in (0, 1)))
    if pairs is None:
        return {}
    for step, positions in zip(steps, (pairs.first, pairs.second), strict=True):
        times = step["dur_ns"].to_numpy()
        if 2 * times[positions[pairs.sure]].sum() < times.sum():
            return {}
    trusted = pairs.sure | pairs.one_for_one
    aligned = [
        step["item"].to_numpy()[positions[trusted]].tolist()
        for step, positions in zip(steps, (pairs.first, pairs.second), strict=True)
    ]
    return Counter(
        (items[0][first], items[1][second]) for first, second in zip(*aligned, strict=True)
    )


def _to_align(steps: _Steps) -> list[pl.DataFrame]:
    """A usual step; of a whole profile also all of it, since it may be one step."""
    usual = _usual_step(steps)
    if not steps.whole or usual.is_empty():
        return [usual]
    rank, device = usual.select("rank", "device").row(0)
    own = pl.col("rank").eq_missing(rank) & pl.col("device").eq_missing(device)
    return [usual, steps.table.filter(own)]


def _unlike(pair: tuple[pl.DataFrame, ...]) -> float:
    """How much the numbers of activities differ: the same work has as many."""
    sizes = sorted(part.height for part in pair)
    return sizes[-1] / max(1, sizes[0])


def _usual_step(steps: _Steps) -> pl.DataFrame:
    """One step on one GPU: the first with the usual number of activities."""
    keys = ["rank", "device", "step"]
    sizes = steps.table.group_by(keys, maintain_order=True).len()
    if not sizes.height:
        return steps.table
    usual = sizes.filter(pl.col("len") == sizes["len"].mode().max()).row(0, named=True)
    return steps.table.filter(*(pl.col(key).eq_missing(usual[key]) for key in keys))


def _properties(step: pl.DataFrame) -> dict[str, list[object]]:
    """What kernels can agree in, for each kernel of a step."""
    names = [name or "" for name in step["name"].to_list()]
    return {
        "kind": list(step["kind"].to_list()),
        "name": list(names),
        "family": [family_of(name) for name in names],
        "launched_by": _both(step, "op", "input_dims"),
        "launch": _both(step, "grid", "block"),
        "category": [None if c == "other" else c for c in step["category"].to_list()],
    }


def _both(step: pl.DataFrame, first: str, second: str) -> list[object]:
    rows = step.select(first, second).iter_rows()
    return [None if None in row else row for row in rows]


def _contexts(steps: _Steps, items: Sequence[Item], rows: dict[Item, int]) -> dict[Item, Context]:
    """For each item without a row, the rows before and after it in most of its calls."""
    row_of = np.array([rows.get(item, -1) for item in items], np.int64)
    number = steps.table["item"].to_numpy()
    before, after = _neighbors(row_of[number], steps.table)
    contexts: dict[Item, Context] = {}
    for index in np.flatnonzero(row_of < 0).tolist():
        calls = np.flatnonzero(number == index)
        pairs = np.stack([before[calls], after[calls]])
        distinct, counts = np.unique(pairs, axis=1, return_counts=True)
        if 2 * counts.max() > calls.size:
            first, second = (int(row) for row in distinct[:, counts.argmax()])
            contexts[items[index]] = (None if first < 0 else first, None if second < 0 else second)
    return contexts


def _neighbors(row: Int64s, table: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """The nearest rows before and after each activity of its step and GPU; -1 at the ends."""
    keys = ["rank", "device", "step"]
    filled = table.select(*keys, pl.Series("row", row).replace(-1, None).alias("row")).select(
        pl.col("row").forward_fill().over(keys).fill_null(-1).alias("before"),
        pl.col("row").backward_fill().over(keys).fill_null(-1).alias("after"),
    )
    return filled["before"].to_numpy(), filled["after"].to_numpy()


def _row(match: Match, sides: Sequence[_Steps], numbers: Sequence[dict[Item, int]]) -> KernelChange:
    per_step = [
        steps.times[[number[item] for item in own]].sum(axis=0)
        for steps, number, own in zip(sides, numbers, (match.before, match.after), strict=True)
    ]
    times = [
        sum(item.total_ns for item in own) / steps.per_step / 1e6
        for steps, own in zip(sides, (match.before, match.after), strict=True)
    ]
    interval = _interval(*per_step)
    heaviest = max(match.items, key=lambda item: (item.total_ns, item.name))
    return KernelChange(
        relation=_relation(match),
        matched_by=match.matched_by,
        group=heaviest.group,
        role=heaviest.role,
        category=heaviest.category,
        before=[_use(item, match) for item in match.before],
        after=[_use(item, match) for item in match.after],
        before_ms=times[0],
        after_ms=times[1],
        diff_ms=times[1] - times[0],
        low_ms=None if interval is None else interval[0] / 1e6,
        high_ms=None if interval is None else interval[1] / 1e6,
        differs=None if interval is None else interval[0] > 0 or interval[1] < 0,
    )


def _interval(before: Floats, after: Floats) -> tuple[float, float] | None:
    if min(before.size, after.size) < MIN_STEPS:
        return None
    if np.array_equal(before, after):
        return 0.0, 0.0
    return TwoSamples(before, after).difference((1.0, 1.0))


def _relation(match: Match) -> Relation:
    if not match.before:
        return "new"
    if not match.after:
        return "gone"
    if match.same_names:
        return "same"
    names = [len({item.name for item in side}) for side in (match.before, match.after)]
    if names == [1, 1]:
        return "replaced"
    if names[0] == 1:
        return "split"
    return "fused" if names[1] == 1 else "changed"


def _use(item: Item, match: Match) -> KernelUse:
    return KernelUse(
        name=item.name,
        calls_per_step=item.calls_per_step,
        mean_us=item.total_ns / item.calls / 1e3,
        total_ns=item.total_ns,
        absorbed=item in match.absorbed,
    )
