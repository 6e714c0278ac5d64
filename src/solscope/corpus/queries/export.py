"""Hot shapes as a suite file (`solscope.suite/1`), which the benchmark runs like our own suite."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from solscope._version import __version__
from solscope.corpus.queries.shapes import HotShape, HotShapes, OperatorShapes, hot_shapes
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError
from solscope.files import new_file
from solscope.operators import OPERATOR_MODULES, operator
from solscope.suite.atrex import load_suite
from solscope.suite.files import SCHEMA, ListedOperator, ListedShape, SuiteFile, dump

MIXED, UNKNOWN = "mixed", "unknown"
"""Precision of an operator whose shapes have several, and of one that no axis or list tells."""


def suite_of(
    corpus: Corpus,
    name: str,
    cover: float = 0.95,
    buckets: bool = True,
    weight: str = "uniform",
    where: Mapping[str, str] | None = None,
) -> SuiteFile:
    """The hot shapes of every operator of the catalog, as a suite."""
    hot = hot_shapes(corpus, None, cover, buckets, weight, where)
    operators = _operators(hot)
    if not operators:
        raise InputError(
            f"{corpus.url}: no operator of these profiles has known shapes; record with shapes, "
            "or add with --model CONFIG"
        )
    return SuiteFile(
        schema=SCHEMA,
        name=name,
        title=f"Hot shapes of {hot.profiles} profiles",
        provenance={
            "source": "solscope corpus",
            "solscope": __version__,
            "profiles": hot.profiles,
            "cover": cover,
            "buckets": buckets,
            "weight": weight,
            "where": dict(where or {}),
        },
        operators=operators,
    )


def write_suite(suite: SuiteFile, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a suite file; all of it appears at once or not at all."""
    target = Path(path)
    if target.exists() and not force:
        raise UsageError(f"{target} exists; replace it with --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_file(target) as work:
        work.write_text(dump(suite), encoding="utf-8")
    return target


def _operators(hot: HotShapes) -> list[ListedOperator]:
    """One entry per operator, most important first."""
    return [
        ListedOperator(
            operator=op.operator,
            dtype=_dtype(op),
            importance=op.importance_pct / 100,
            shapes=[_shape(op.operator, shape, op.cover) for shape in op.shapes],
        )
        for op in hot.operators
        if op.operator in OPERATOR_MODULES and op.shapes
    ]


def _dtype(op: OperatorShapes) -> str:
    """The precision that the axes name, or the public suite for an operator that it has."""
    named = {shape.axes["dtype"] for shape in op.shapes if isinstance(shape.axes.get("dtype"), str)}
    if named:
        return str(named.pop()) if len(named) == 1 else MIXED
    in_suite = operator(op.operator).suite_id is not None
    return load_suite().operator(op.operator).dtype if in_suite else UNKNOWN


def _shape(name: str, shape: HotShape, whole: float) -> ListedShape:
    sizes = " ".join(f"{key}={value}" for key, value in shape.axes.items())
    seen = f"seen in {shape.origin.profiles} profiles"
    return ListedShape(
        id=shape.id,
        axes=shape.axes,
        weight=shape.weight / whole,
        description=f"{name} {sizes}, {seen}"[:300],
        provenance={
            "calls": shape.calls,
            "p50_us": shape.p50_us,
            "shapes": shape.shapes,
            "spans": shape.spans,
            **msgspec.to_builtins(shape.origin),
        },
    )
