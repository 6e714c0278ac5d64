"""Which shapes to run: those of a suite, smaller ones for small machines, and extra cases."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from solscope.errors import UsageError
from solscope.operators.base import Operator
from solscope.operators.task import Variant
from solscope.suite.files import SHIPPED, load
from solscope.suite.scale import scale_down

DEFAULT_SUITE = "atrex"
SMALL = 0.0
"""The scale of shapes that were made small enough for any CPU."""
REHEARSALS = 3
"""Shapes on which a compiler is warmed up, at most."""
LABELS: dict[Variant, str] = {
    "extreme": "extreme inputs",
    "ties": "inputs with equal values",
    "empty": "empty inputs",
}
"""What the extra cases with other values than usual are called."""
MOST_SEQUENCES = 3
"""Sequences of equal length in an extra case beside the smallest shape."""
ROWS_OF_ALL_KINDS = 64
"""Rows of a case with extreme values, ties or empty parts: few rows have no room for all of it."""


class Workload(msgspec.Struct, frozen=True):
    """One shape of an operator to be run."""

    operator: str
    shape: str
    axes: dict[str, Any]
    weight: float
    """Share of the shape in the operator's time; all shapes of an operator are 1."""
    calls: float | None
    """Calls in production; null where the suite does not say."""
    importance: float
    """Share of the operator in GPU time; all operators of the suite are 1."""
    suite: str

    @property
    def rank(self) -> float:
        """What is lost when this shape is not measured."""
        return self.weight * self.importance


class Case(msgspec.Struct, frozen=True):
    """Sizes and kind of inputs of an extra case."""

    axes: dict[str, Any]
    variant: Variant
    label: str
    always: bool = False
    """Checked in every run, not drawn among others: what no listed shape varies."""


def suite_with(operator: str) -> str | None:
    """The first of the suites that ship with shapes of an operator."""
    return next((suite for suite in SHIPPED if operator in workloads(suite)), None)


def workloads(suite: str = DEFAULT_SUITE) -> dict[str, list[Workload]]:
    """Every shape of a suite, by operator, the most important operator first."""
    listed = load(suite)
    importance = listed.importance_sum
    return {
        op.operator: [
            Workload(
                operator=op.operator,
                shape=shape.id,
                axes=dict(shape.axes),
                weight=shape.weight,
                calls=shape.provenance.get("calls"),
                importance=op.importance / importance,
                suite=suite,
            )
            for shape in op.shapes
        ]
        for op in listed.by_importance
    }


def choose(listed: Sequence[Workload], shapes: str) -> list[Workload]:
    """Shapes by `all`, by ids (`1,4,7`), or the first so many by weight (`top3`)."""
    if shapes == "all":
        return list(listed)
    if shapes.startswith("top") and shapes[3:].isdecimal() and int(shapes[3:]):
        ordered = sorted(listed, key=lambda shape: -shape.weight)
        return ordered[: int(shapes[3:])]
    wanted = [name.strip() for name in shapes.split(",") if name.strip()]
    by_name = {shape.shape: shape for shape in listed}
    lacking = [shape for shape in wanted if shape not in by_name]
    if lacking or not wanted:
        has = ", ".join(by_name)
        raise UsageError(f"no shape {', '.join(lacking) or shapes!r} (available: {has}; or all)")
    return [by_name[shape] for shape in wanted]


def scaled(operator: Operator, axes: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """The axes that may have any size times `scale`, at least 1; all axes small for 0."""
    if scale == SMALL:
        return scale_down(axes)
    if scale == 1 or operator.task is None:
        return dict(axes)
    return {
        name: _scale(value, scale) if name in operator.task.vary else value
        for name, value in axes.items()
    }


def _scale(value: Any, scale: float) -> Any:
    if isinstance(value, list):
        return [
            [*(_scale(length, scale) for length in group[:-1]), min(group[-1], 4)]
            for group in value[:4]
        ]
    return max(1, round(value * scale)) if isinstance(value, int) else value


def rehearsal(operator: Operator, shapes: Sequence[Workload]) -> list[dict[str, Any]]:
    """Few shapes in which every axis varies that varies at all, the smallest first.

    A compiler that specializes for sizes until they vary has seen what it will see, in the same
    order in every process, so that its cache holds all of it.
    """
    if not shapes:
        return []
    ordered = sorted(shapes, key=lambda shape: operator.cost(shape.axes).bytes)
    first = ordered[0].axes
    chosen = [first]
    fixed = {
        axis for shape in ordered for axis in shape.axes if shape.axes[axis] != first.get(axis)
    }
    while fixed and len(chosen) < REHEARSALS:
        best = max(ordered, key=lambda shape: sum(shape.axes.get(a) != first.get(a) for a in fixed))
        chosen.append(best.axes)
        fixed -= {axis for axis in fixed if best.axes.get(axis) != first.get(axis)}
    return chosen


def beside(operator: Operator, axes: Mapping[str, Any], most_bytes: float) -> Iterator[Case]:
    """Cases around one shape: sizes one less and one more, odd, one; ties, empty, extreme."""
    task = operator.task
    if task is None:
        return
    small = dict(axes)
    while operator.cost(small).bytes > most_bytes:
        smaller = scaled(operator, small, 0.5)
        if smaller == small:
            break
        small = smaller
    uneven = {
        name: _uneven(value) if name in task.vary and _is_groups(value) else value
        for name, value in small.items()
    }
    yield Case(uneven, "varied", "other parameters and lengths", always=True)
    if operator.cost(small).bytes <= 4 * most_bytes:
        rows = _with_rows(operator, small, 4 * most_bytes)
        for variant, label in LABELS.items():
            yield Case(rows, variant, label, always=variant == "extreme")
    for name in task.vary:
        for value in dict.fromkeys(_around(small.get(name))):
            case = {**small, name: _plain(value)}
            if case != small:
                yield Case(case, "typical", f"{name} = {_plain(value)}")


def larger(
    operator: Operator,
    listed: Sequence[Mapping[str, Any]],
    most_bytes: float,
    most_flop: float,
    chance: random.Random,
) -> Iterator[Case]:
    """Sizes that no list has: beside the shape with most rows that is affordable, and any other.

    What works beside the smallest shape may go wrong where a kernel takes another path, or where
    its last block is not full. Shapes are made as small as the limits ask. Where the rows are not
    what makes them large, the smallest one is taken as it is.
    """
    task = operator.task
    if task is None:
        return
    fitting = (
        _fitting(operator, listed, most_bytes, most_flop)
        or sorted(
            _fitting(operator, listed, math.inf, most_flop),
            key=lambda axes: operator.cost(axes).bytes,
        )[:1]
    )
    if not fitting:
        return
    longest = max(fitting, key=lambda axes: sum(_rows(axes.get(name)) for name in task.vary))
    cases: list[dict[str, Any]] = []
    for axes in (longest, chance.choice(fitting)):
        name = max(task.vary, key=lambda name: _rows(axes.get(name)))
        case = {**axes, name: _uncommon(axes[name], chance)}
        if case not in cases:
            cases.append(case)
            yield Case(case, "typical", f"{name} = {case[name]}", always=True)


def _fitting(
    operator: Operator, listed: Sequence[Mapping[str, Any]], most_bytes: float, most_flop: float
) -> list[dict[str, Any]]:
    """Shapes of several rows, what may vary halved until they are within the limits."""
    vary = operator.required_task.vary
    found = []
    for axes in listed:
        small = dict(axes)
        while any(_rows(small.get(name)) > 1 for name in vary):
            cost = operator.cost(small)
            if cost.bytes <= most_bytes and cost.flop <= most_flop:
                found.append(small)
                break
            small |= {name: _half(small[name]) for name in vary if name in small}
    return found


def _rows(value: Any) -> int:
    """A size, or the length of all sequences together."""
    if _is_groups(value):
        return sum(group[-2] * group[-1] for group in value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _half(value: Any) -> Any:
    """Half a size; half as many sequences, or of single ones half the lengths."""
    if not _is_groups(value):
        return max(1, value // 2)
    if any(count > 1 for *_, count in value):
        return [[*lengths, max(1, count // 2)] for *lengths, count in value]
    return [[*(max(1, length // 2) for length in lengths), 1] for *lengths, _ in value]


def _uncommon(value: Any, chance: random.Random) -> Any:
    """A size near this one that is no multiple of 8; of sequences, other lengths and numbers."""
    if _is_groups(value):
        step = chance.choice((-1, 1))
        return [
            [
                *(max(1, length + step) for length in lengths),
                _uncommon(count, chance) if count > 1 else 1,
            ]
            for *lengths, count in value
        ]
    sizes = {value - 1, value + 1, chance.randint(value * 3 // 4, value) | 1} - {0, value}
    return chance.choice([size for size in sorted(sizes) if size % 8])


def _with_rows(operator: Operator, axes: Mapping[str, Any], most_bytes: float) -> dict[str, Any]:
    """With the rows that a case of unlike rows needs, or as many as are affordable."""
    task = operator.required_task
    sizes = [name for name in task.vary if isinstance(axes.get(name), int)]
    rows = ROWS_OF_ALL_KINDS if sizes else 0
    while rows and rows > axes[sizes[-1]]:
        more = {**axes, sizes[-1]: rows}
        if operator.cost(more).bytes <= most_bytes:
            return more
        rows //= 2
    return dict(axes)


def _around(value: Any) -> list[Any]:
    """Sizes near one; of lists of lengths, each length one more and odd."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value + 1, max(1, value - 1), max(1, value // 2) | 1, 1]
    if _is_groups(value):
        few = [(*group[:-1], min(group[-1], MOST_SEQUENCES)) for group in value[:MOST_SEQUENCES]]
        more = tuple((*(length + 1 for length in group[:-1]), group[-1]) for group in few)
        odd = tuple((*(length // 2 | 1 for length in group[:-1]), group[-1]) for group in few)
        return [more, odd]
    return []


def _is_groups(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _uneven(groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """Several sequences of unlike lengths, with fewer queries than keys where both are given.

    Example: [[256, 256, 484]] becomes [[129, 256, 1], [86, 129, 2], [1, 87, 1]].
    """
    longest = max(group[-2] for group in groups)
    keys = [longest, max(1, longest // 2) | 1, max(1, longest // 3) + 1]
    if len(groups[0]) == 2:
        return [[keys[0], 1], [keys[1], 2], [keys[2], 1]]
    queries = max(group[0] for group in groups)
    few = [max(1, queries // 2) | 1, max(1, queries // 3), 1]
    return [[min(q, k), k, n] for q, k, n in zip(few, keys, (1, 2, 1), strict=True)]


def _plain(value: Any) -> Any:
    return [list(group) for group in value] if isinstance(value, tuple) else value
