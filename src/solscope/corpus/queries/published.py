"""The published importance of the public suite, compared with its own data.

The suite publishes importance per operator, but neither the profiles nor the code behind it. Its
data say, for some shapes, how often they were called and how long all calls took. That makes two
profiles for a store: `recorded` has the shapes with durations; `estimated` has all shapes with call
counts, those without durations at calls x time of the deployed kernel. `corpus importance` then
gives the share of each operator as far as the data go.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec
import polars as pl

from solscope._version import __version__
from solscope.corpus.queries.importance import importance
from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import schema
from solscope.corpus.store import Corpus
from solscope.operators import operator
from solscope.suite.atrex import SuiteOperator, SuiteShape, load_suite
from solscope.suite.axes import suite_axes

Basis = Literal["recorded", "estimated"]
BASIS = "basis"
"""Tag that distinguishes the two profiles."""

NEAR = 1.5
"""Factor between two shares up to which they are said to agree."""


class PublishedRow(msgspec.Struct, frozen=True):
    """One operator."""

    operator: str
    profiles: int | None
    """Profiles that contain it, as published."""
    frequency_pct: float | None
    """Share of profiles that contain it: its importance cannot be larger if all count the same."""
    published_pct: float
    """As published; all together 109.5."""
    normalized_pct: float
    """The same, scaled so that all together are 100."""
    recorded_pct: float | None
    """Share by recorded durations; null without any."""
    estimated_pct: float | None
    """Share by durations, or calls x deployed time; null without call counts."""
    shapes: int
    timed_shapes: int
    """Shapes with a recorded duration."""
    counted_shapes: int
    """Shapes with a call count."""
    reason: str
    """Why the estimate differs from what is published."""


class PublishedTable(msgspec.Struct, frozen=True):
    """All operators, most important first."""

    profiles: int
    published_sum_pct: float
    recorded_ms: float
    """All recorded durations together."""
    estimated_ms: float
    rows: list[PublishedRow]


def add_published(corpus: Corpus) -> None:
    """Add the two profiles that the suite's data make to a store."""
    corpus.append([suite_extract("recorded"), suite_extract("estimated")])


def suite_extract(basis: Basis) -> Extract:
    """The suite's calls and durations as one profile: a row per shape."""
    suite = load_suite()
    rows = [
        _time_row(op, shape, time)
        for op in suite.operators
        for shape in op.shapes
        if (time := _shape_us(shape, basis)) is not None
    ]
    types = {name: dtype for name, dtype in schema("times").items() if name != "entry"}
    times = pl.DataFrame(rows, schema=types)
    steps = schema("steps").to_frame().drop("entry")
    total = int(times["time_ns"].sum())
    text = msgspec.json.encode([basis, suite])
    profile = {
        "id": hashlib.sha256(text).hexdigest(),
        "file": f"the public suite, {basis}",
        "file_bytes": len(text),
        "format": "suite",
        "solscope": __version__,
        "tags": msgspec.json.encode({BASIS: basis}).decode(),
        "events": 0,
        "kept_events": 0,
        "activities": int(times["launches"].sum()),
        "gpu_ns": total,
        **dict.fromkeys(("prefill_ns", "decode_ns", "mixed_ns", "steps"), 0),
        "times_rows": times.height,
        "times_sha256": rows_hash(times),
        "steps_sha256": rows_hash(steps),
    }
    return Extract(profile, times, steps)


def _time_row(op: SuiteOperator, shape: SuiteShape, time_us: float) -> dict[str, Any]:
    calls, time_ns = shape.call_count or 0, round(1e3 * time_us)
    return {
        "category": operator(op.name).category,
        "operator": op.name,
        "axes": msgspec.json.encode(suite_axes(op, shape), order="sorted").decode(),
        "source": "recorded",
        "kernel": f"{op.name} {shape.description}",
        "launches": calls,
        "time_ns": time_ns,
        "calls": calls,
        "call_ns": time_ns,
        "durations_ns": [],
        "durations_calls": [],
    }


def compare_published(corpus: Corpus) -> PublishedTable:
    """Importance as published, and as a store with the suite's own data gives it."""
    suite = load_suite()
    recorded = importance(corpus, where={BASIS: "recorded"})
    estimated = importance(corpus, where={BASIS: "estimated"})
    by_recorded = {row.key: row.importance_pct for row in recorded.rows}
    by_estimated = {row.key: row.importance_pct for row in estimated.rows}
    return PublishedTable(
        profiles=suite.num_profiles,
        published_sum_pct=100 * suite.importance_sum,
        recorded_ms=recorded.total_gpu_ms,
        estimated_ms=estimated.total_gpu_ms,
        rows=[
            _row(
                op,
                suite.num_profiles,
                100 * op.importance_score / suite.importance_sum,
                by_recorded.get(op.name),
                by_estimated.get(op.name),
            )
            for op in suite.by_importance
        ],
    )


def _row(
    op: SuiteOperator,
    profiles: int,
    normalized: float,
    recorded: float | None,
    estimated: float | None,
) -> PublishedRow:
    frequency = None if op.num_profiles is None else 100 * op.num_profiles / profiles
    return PublishedRow(
        operator=op.name,
        profiles=op.num_profiles,
        frequency_pct=frequency,
        published_pct=100 * op.importance_score,
        normalized_pct=normalized,
        recorded_pct=recorded,
        estimated_pct=estimated,
        shapes=len(op.shapes),
        timed_shapes=sum(shape.total_duration_us is not None for shape in op.shapes),
        counted_shapes=sum(shape.call_count is not None for shape in op.shapes),
        reason=_reason(op, normalized, estimated),
    )


def _reason(op: SuiteOperator, normalized: float, estimated: float | None) -> str:
    """What the data themselves say about the difference."""
    if estimated is None:
        return "no shape has a call count: nothing to compute from"
    if normalized / NEAR <= estimated <= normalized * NEAR:
        return f"agrees within a factor of {NEAR:g}"
    parts = [*_missing(op)]
    if estimated > normalized:
        times = {shape.id: _shape_us(shape, "estimated") or 0.0 for shape in op.shapes}
        largest = max(times, key=lambda number: times[number])
        share = 100 * times[largest] / sum(times.values())
        parts.append(f"shape {largest} alone is {share:.0f} % of the estimate")
    else:
        calls = sum(shape.call_count or 0 for shape in op.shapes)
        each = calls / (op.num_profiles or 1)
        parts.append(
            f"{calls:,} listed calls, {each:,.1f} for each of the {op.num_profiles} profiles that "
            "contain it: a sample"
        )
    return "; ".join(parts)


def _missing(op: SuiteOperator) -> list[str]:
    """What the data leave out."""
    count = len(op.shapes)
    counted = sum(shape.call_count is not None for shape in op.shapes)
    timed = sum(shape.total_duration_us is not None for shape in op.shapes)
    parts = []
    if counted < count:
        parts.append(f"{count - counted} of {count} shapes have no call count")
    if not timed:
        parts.append("no durations: deployed times on another GPU")
    elif timed < counted:
        parts.append(f"durations for {timed} of {counted} counted shapes")
    return parts


def _shape_us(shape: SuiteShape, basis: Basis) -> float | None:
    """Time of all calls of a shape: recorded, or calls x time of the deployed kernel."""
    if shape.total_duration_us is not None or basis == "recorded":
        return shape.total_duration_us
    return None if shape.call_count is None else shape.call_count * shape.prod_us
