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
import numpy as np
import polars as pl

from solscope.corpus.aggregates.part import first_of
from solscope.corpus.aggregates.stored import parts
from solscope.corpus.queries.call_times import MOST_PROFILES
from solscope.corpus.queries.importance import ImportanceRow, importance
from solscope.corpus.queries.select import UNKNOWN, Selection, select
from solscope.corpus.store import Corpus
from solscope.errors import UsageError
from solscope.registry import Registry

LOAD_AXES = ("tokens", "m", "rows", "batch", "queries", "keys")
"""Axes that follow the load, not the model."""
_FACTS = ("gpu", "model", "framework")
_NAMED = 8
"""Names of a kind that provenance lists at most."""


class ShapeOrigin(msgspec.Struct, frozen=True):
    """Where a shape was seen."""

    profiles: int
    gpus: list[str]
    models: list[str]
    frameworks: list[str]
    phases: list[str]
    roles: list[str]
    kernels: list[str]
    """Kernels that led its calls, most time first."""
    example: str
    """Id of the profile in which it takes most time."""


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
    weight: str = "uniform",
    where: Mapping[str, str] | None = None,
) -> HotShapes:
    """The fewest shapes that cover a share of the time of each operator, or of one."""
    if not 0 < cover <= 1:
        raise UsageError(f"cover must be a share between 0 and 1, not {cover}")
    result = importance(corpus, "shape", weight=weight, where=where)
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
    origins = _origins(corpus, where, chosen)
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


Origins = dict[tuple[str, str], ShapeOrigin]


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
        origin=origins[operator, _axes_text(axes)],
    )


def _spans(bucket: _Bucket) -> dict[str, tuple[int, int]]:
    every = [row.axes or {} for row in bucket.members]
    spans = {}
    for name in LOAD_AXES:
        values = [axes[name] for axes in every if isinstance(axes.get(name), int)]
        if values and min(values) < max(values):
            spans[name] = (min(values), max(values))
    return spans


def _axes_text(axes: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(axes), order="sorted").decode()


def _origins(
    corpus: Corpus, where: Mapping[str, str] | None, chosen: dict[str, list[_Bucket]]
) -> Origins:
    """Where the shapes that represent the chosen buckets were seen.

    GPUs, models, frameworks, phases and the number of profiles are of all profiles; roles and
    kernels of the example of each shape and of at most `MOST_PROFILES` others.
    """
    wanted = [
        (name, _axes_text(bucket.members[0].axes or {}))
        for name, buckets in chosen.items()
        for bucket in buckets
    ]
    keys = pl.DataFrame(wanted, schema={"operator": pl.String, "axes": pl.String}, orient="row")
    selection = select(corpus, where)
    seen = _seen(selection, keys)
    details = _details(selection, keys, seen["example_at"])
    ids = selection.profiles.select(pl.col("at").alias("example_at"), example="id")
    rows = (
        seen.join(details, on=["operator", "axes"], how="left")
        .join(ids, on="example_at")
        .drop("example_at")
    )
    lists = [pl.col(name).fill_null([]) for name in ("roles", "kernels")]
    return {
        (row.pop("operator"), row.pop("axes")): ShapeOrigin(**row)
        for row in rows.with_columns(lists).iter_rows(named=True)
    }


def _seen(selection: Selection, keys: pl.DataFrame) -> pl.DataFrame:
    """Profiles of each shape, what they are, and the one in which it takes most time."""
    kinds = selection.profiles.select(_FACTS).unique(maintain_order=True).with_row_index("facts")
    facts = selection.profiles.join(kinds, on=list(_FACTS), nulls_equal=True, maintain_order="left")
    own = facts.select("at", "entry", "facts")
    counted, seen, phases = [], [], []
    for part in parts(selection.corpus, "shape"):
        names = part.names.rename({"name:0": "operator", "name:1": "axes"}).with_row_index("name")
        wanted = names.join(keys.with_row_index("shape"), on=["operator", "axes"])
        texts = part.phases.with_columns(pl.col("phase").fill_null(UNKNOWN))
        texts = texts.with_row_index("number").rename({"phase": "text"})
        if selection.phase is not None:
            texts = texts.filter(pl.col("text") == selection.phase)
        cells = (
            part.cells.select("entry", "name", "phase", "time_ns")
            .join(wanted.select("name", "shape"), on="name", maintain_order="left")
            .join(
                part.entries.with_row_index("number").join(own, on="entry").drop("entry"),
                left_on="entry",
                right_on="number",
                maintain_order="left",
            )
            .filter(pl.col("phase").is_in(texts["number"].to_list()))
        )
        phases.append(
            cells.select("shape", "phase")
            .unique()
            .join(texts, left_on="phase", right_on="number")
            .select("shape", "text")
        )
        seen.append(cells.select("shape", "facts").unique())
        counted.append(_longest(cells))
    return _origin_facts(keys, kinds, pl.concat(counted), pl.concat(seen), pl.concat(phases))


def _longest(cells: pl.DataFrame) -> pl.DataFrame:
    """By shape: profiles of one part, and the one with most time; phases are put together."""
    at, shape = cells["at"].to_numpy(), cells["shape"].to_numpy()
    new = first_of(at.astype("i8"), shape.astype("i8"))
    time = np.add.reduceat(cells["time_ns"].to_numpy(), new) if new.size else new
    frame = pl.DataFrame({"shape": shape[new], "at": at[new], "time_ns": time})
    longest = pl.col("time_ns") == pl.col("time_ns").max()
    return frame.group_by("shape").agg(
        pl.len().alias("profiles"), pl.col("at").filter(longest).min(), pl.col("time_ns").max()
    )


def _origin_facts(
    keys: pl.DataFrame,
    kinds: pl.DataFrame,
    counted: pl.DataFrame,
    seen: pl.DataFrame,
    phases: pl.DataFrame,
) -> pl.DataFrame:
    """What all parts together say."""
    lists = {"gpu": "gpus", "model": "models", "framework": "frameworks"}
    facts = seen.unique().join(kinds, on="facts").group_by("shape")
    named = phases.filter(pl.col("text") != UNKNOWN).unique().sort("text").group_by("shape")
    return (
        counted.sort("time_ns", "at", descending=[True, False])
        .group_by("shape", maintain_order=True)
        .agg(pl.col("profiles").sum(), pl.col("at").first().alias("example_at"))
        .join(
            facts.agg(
                pl.col(n).drop_nulls().unique().sort().head(_NAMED).alias(a)
                for n, a in lists.items()
            ),
            on="shape",
        )
        .join(
            named.agg(pl.col("text").unique().sort().head(_NAMED).alias("phases")),
            on="shape",
            how="left",
        )
        .with_columns(pl.col("phases").fill_null([]))
        .join(keys.with_row_index("shape"), on="shape")
        .drop("shape")
    )


def _details(selection: Selection, keys: pl.DataFrame, examples: pl.Series) -> pl.DataFrame:
    """Roles and kernels of each shape."""
    profiles = selection.profiles.select("at", "entry")
    some = pl.concat(
        [profiles.head(MOST_PROFILES), profiles.filter(pl.col("at").is_in(examples.to_list()))]
    )
    rows = selection.corpus.raw("times").filter(
        pl.col("entry").is_in(some["entry"].unique().to_list())
        & pl.col("operator").is_in(keys["operator"].unique().to_list())
    )
    if selection.phase is not None:
        rows = rows.filter(pl.col("phase").fill_null(UNKNOWN) == selection.phase)
    return (
        rows.select("operator", "axes", "role", "kernel", "calls", "time_ns")
        .join(keys.lazy(), on=["operator", "axes"])
        .group_by("operator", "axes", "role", "kernel")
        .agg(pl.col("calls").sum(), pl.col("time_ns").max())
        .sort("time_ns", "kernel", descending=[True, False])
        .group_by("operator", "axes")
        .agg(
            pl.col("role").drop_nulls().unique().sort().head(_NAMED).alias("roles"),
            pl.col("kernel")
            .filter(pl.col("calls") > 0)
            .unique(maintain_order=True)
            .head(_NAMED)
            .alias("kernels"),
        )
        .collect()
    )
