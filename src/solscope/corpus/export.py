"""Hot shapes as a suite file (`solscope.suite/1`), which the benchmark runs like our own suite."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from solscope._version import __version__
from solscope.corpus.shapes import HotShape, HotShapes, hot_shapes
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError
from solscope.operators import OPERATOR_MODULES, operator
from solscope.suite.data import load_suite

SUITE_SCHEMA = "solscope.suite/1"


class FileShape(msgspec.Struct, frozen=True):
    """One shape."""

    id: str
    axes: dict[str, Any]
    weight: float
    """Share of the operator's time; those of one operator sum to 1."""
    description: str
    provenance: dict[str, Any]


class FileOperator(msgspec.Struct, frozen=True):
    """One operator in one precision."""

    operator: str
    dtype: str | None
    """Null where neither axes nor the public suite tell."""
    importance: float
    """Share of all GPU time, 0 to 1."""
    shapes: list[FileShape]


class SuiteFile(msgspec.Struct, frozen=True):
    """A suite."""

    schema: str
    name: str
    title: str
    provenance: dict[str, Any]
    operators: list[FileOperator]


def suite_of(
    corpus: Corpus,
    name: str,
    cover: float = 0.95,
    buckets: bool = True,
    weight: str = "uniform",
    where: Mapping[str, str] | None = None,
) -> SuiteFile:
    """The hot shapes of every operator of the catalogue, as a suite."""
    found = hot_shapes(corpus, None, cover, buckets, weight, where)
    operators = _operators(found)
    if not operators:
        raise InputError(
            f"{corpus.url}: no operator of these profiles has known shapes; record with shapes, "
            "or add with --model CONFIG"
        )
    return SuiteFile(
        schema=SUITE_SCHEMA,
        name=name,
        title=f"Hot shapes of {found.profiles} profiles",
        provenance={
            "source": "solscope corpus",
            "solscope": __version__,
            "profiles": found.profiles,
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
    work = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        work.write_bytes(msgspec.json.format(msgspec.json.encode(suite), indent=2) + b"\n")
        work.replace(target)
    except BaseException:
        work.unlink(missing_ok=True)
        raise
    return target


def _operators(found: HotShapes) -> list[FileOperator]:
    """One entry per operator and precision, most important first."""
    entries = []
    for op in found.operators:
        if op.operator not in OPERATOR_MODULES or not op.shapes:
            continue
        by_dtype: dict[str | None, list[HotShape]] = defaultdict(list)
        for shape in op.shapes:
            by_dtype[_dtype(op.operator, shape.axes)].append(shape)
        covered = sum(shape.weight for shape in op.shapes)
        for dtype, shapes in by_dtype.items():
            own = sum(shape.weight for shape in shapes)
            entries.append(
                FileOperator(
                    operator=op.operator,
                    dtype=dtype,
                    importance=op.importance_pct / 100 * own / covered,
                    shapes=[_shape(op.operator, shape, own) for shape in shapes],
                )
            )
    return sorted(entries, key=lambda e: (-e.importance, e.operator, e.dtype or ""))


def _dtype(name: str, axes: Mapping[str, Any]) -> str | None:
    if isinstance(axes.get("dtype"), str):
        return str(axes["dtype"])
    in_suite = operator(name).suite_id is not None
    return load_suite().operator(name).dtype if in_suite else None


def _shape(name: str, shape: HotShape, whole: float) -> FileShape:
    sizes = " ".join(f"{key}={value}" for key, value in shape.axes.items())
    seen = f"seen in {shape.origin.profiles} profiles"
    return FileShape(
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
