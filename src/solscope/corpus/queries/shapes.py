"""Hot shapes: the fewest shapes of an operator that cover most of its time.

The weight of a shape is its share of the operator's time (importance, so profiles are weighted as
there) among all calls with known axes. Taking shapes from the heaviest on reaches any cover with
the fewest. With buckets, shapes that differ only in how much work came in (tokens, batch, keys)
and lie within a factor of two share one entry: the one among them that takes most time, a shape
that really occurred, represents all.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from solscope.corpus.queries.importance import ImportanceRow, importance_of
from solscope.corpus.queries.select import UNIFORM, select
from solscope.corpus.queries.selected_parts import selected_parts
from solscope.corpus.queries.shape_origins import Origins, ShapeOrigin, shape_origins
from solscope.corpus.store import Corpus
from solscope.errors import UsageError
from solscope.registry import Registry

LOAD_AXES = ("tokens", "m", "rows", "batch", "queries", "keys")
"""Axes that follow the load, not the model."""


class HotShape(msgspec.Struct, frozen=True):
    """One shape, or one bucket of shapes."""

    id: str
    """First digits of the hash of its axes."""
    axes: dict[str, Any]
    weight: float
    """Share of the operator's time with known axes; all shapes together 1."""
    cumulative: float
    """Weights up to this one."""
    importance_pct: float
    """Share of all GPU time."""
    calls: int
    p50_us: float | None
    bound_p50_us: float | None
    s_pct: float | None
    shapes: int
    """Shapes in the bucket; 1 without buckets."""
    spans: dict[str, tuple[int, int]]
    """Least and greatest value in the bucket, for the axes that differ."""
    origin: ShapeOrigin


class OperatorShapes(msgspec.Struct, frozen=True):
    """The hot shapes of one operator."""

    operator: str
    importance_pct: float
    """Of all its calls."""
    known_pct: float
    """Share of its time whose axes are known."""
    distinct: int
    """Shapes that occur."""
    cover: float
    """Share of the time with known axes that the listed ones cover."""
    shapes: list[HotShape]


class HotShapes(msgspec.Struct, frozen=True):
    """Hot shapes of all operators, or of one."""

    cover: float
    """What was asked for."""
    buckets: bool
    weight: str
    profiles: int
    operators: list[OperatorShapes]


class _Bucket(msgspec.Struct):
    """Shapes that count as one, heaviest first."""

    members: list[ImportanceRow]

    @property
    def importance(self) -> float:
        return sum(row.importance_pct for row in self.members)


def hot_shapes(
    corpus: Corpus,
    operator: str | None = None,
    cover: float = 0.95,
    buckets: bool = False,
    weight: str = UNIFORM,
    where: Mapping[str, str] | None = None,
) -> HotShapes:
    """The fewest shapes that cover a share of the time of each operator, or of one."""
    if not 0 < cover <= 1:
        raise UsageError(f"cover must be a share between 0 and 1, not {cover}")
    selection = select(corpus, where)
    parts = selected_parts(selection, "shape")
    result = importance_of(selection, parts, "shape", weight=weight, most_intervals=0)
    by_operator: dict[str, list[ImportanceRow]] = defaultdict(list)
    for row in result.rows:
        if row.operator is not None:
            by_operator[row.operator].append(row)
    if operator is not None:
        registry: Registry[list[ImportanceRow]] = Registry("operator in this store")
        for name, rows in by_operator.items():
            registry.register(name, rows)
        by_operator = defaultdict(list, {operator: registry.get(operator)})
    chosen = {name: _choose(rows, cover, buckets) for name, rows in by_operator.items()}
    representing = [
        (name, axes_text(bucket.members[0].axes or {}))
        for name, taken in chosen.items()
        for bucket in taken
    ]
    origins = shape_origins(selection, parts, representing)
    operators = [_operator(name, rows, chosen[name], origins) for name, rows in by_operator.items()]
    operators.sort(key=lambda op: (-op.importance_pct, op.operator))
    return HotShapes(cover, buckets, weight, result.profiles, operators)


def _choose(rows: list[ImportanceRow], cover: float, buckets: bool) -> list[_Bucket]:
    """The heaviest buckets, until they cover enough; `rows` are heaviest first."""
    groups: dict[str, _Bucket] = {}
    for row in rows:
        if row.axes is not None:
            groups.setdefault(_bucket_key(row.axes, buckets), _Bucket([])).members.append(row)
    ordered = sorted(groups.values(), key=lambda b: (-b.importance, b.members[0].key))
    total = sum(bucket.importance for bucket in ordered)
    taken, covered = [], 0.0
    for bucket in ordered:
        if covered >= cover * total * (1 - 1e-12):
            break
        taken.append(bucket)
        covered += bucket.importance
    return taken


def _bucket_key(axes: dict[str, Any], buckets: bool) -> str:
    if buckets:
        axes = {
            name: _octave(value) if name in LOAD_AXES else value for name, value in axes.items()
        }
    return msgspec.json.encode(axes, order="sorted").decode()


def _octave(value: Any) -> Any:
    """Which power of two a count is nearest to, by ratio."""
    return round(math.log2(value)) if isinstance(value, int) and value > 0 else value


def axes_id(axes: Mapping[str, Any]) -> str:
    """A short name for a set of axes that stays the same from store to store."""
    text = msgspec.json.encode(dict(axes), order="sorted")
    return hashlib.sha256(text).hexdigest()[:10]


def _operator(
    name: str, rows: list[ImportanceRow], chosen: list[_Bucket], origins: Origins
) -> OperatorShapes:
    everything = sum(row.importance_pct for row in rows)
    known_pct = sum(row.importance_pct for row in rows if row.axes is not None)
    shapes, cumulative = [], 0.0
    for bucket in chosen:
        weight = bucket.importance / known_pct if known_pct else 0.0
        cumulative += weight
        shapes.append(_shape(name, bucket, weight, cumulative, origins))
    return OperatorShapes(
        operator=name,
        importance_pct=everything,
        known_pct=100 * known_pct / everything if everything else 0.0,
        distinct=sum(row.axes is not None for row in rows),
        cover=cumulative,
        shapes=shapes,
    )


def _shape(
    operator: str, bucket: _Bucket, weight: float, cumulative: float, origins: Origins
) -> HotShape:
    first = bucket.members[0]
    axes = first.axes or {}
    return HotShape(
        id=axes_id(axes),
        axes=axes,
        weight=weight,
        cumulative=min(1.0, cumulative),
        importance_pct=bucket.importance,
        calls=sum(row.calls for row in bucket.members),
        p50_us=first.p50_us,
        bound_p50_us=first.bound_p50_us,
        s_pct=first.s_pct,
        shapes=len(bucket.members),
        spans=_spans(bucket),
        origin=origins[operator, axes_text(axes)],
    )


def _spans(bucket: _Bucket) -> dict[str, tuple[int, int]]:
    every = [row.axes or {} for row in bucket.members]
    spans = {}
    for name in LOAD_AXES:
        values = [axes[name] for axes in every if isinstance(axes.get(name), int)]
        if values and min(values) < max(values):
            spans[name] = (min(values), max(values))
    return spans


def axes_text(axes: Mapping[str, Any]) -> str:
    """Axes as the store has them."""
    return msgspec.json.encode(dict(axes), order="sorted").decode()
