"""From one profile to what a store keeps of it: a plain function, the same for every engine.

A row of `times` holds the activities of one kernel in one phase, kind of layer, role and call
of an operator with one set of axes. Its time is theirs, so that all rows add up to the profile's
GPU time to the nanosecond. A call of an operator may have several kernels; it is counted, with its
time, its bound and its duration, in the row of the kernel that is longest in it. Activities whose
operator has no known cost count as calls of their own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from solscope import demo
from solscope._version import __version__
from solscope.attribution import Attributed, attribute
from solscope.corpus.durations import to_bits
from solscope.corpus.ingest.describe import Description, describe
from solscope.corpus.ingest.redaction import redacted_extract
from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import KEYS, plain_text, schema
from solscope.errors import InputError, SolscopeError
from solscope.events import GPU_KINDS
from solscope.hardware import Hardware
from solscope.operators.from_config import Model
from solscope.profile import Profile, is_saved_profile
from solscope.readers import open as open_profile
from solscope.readers.base import ReadOptions
from solscope.roofline import bound
from solscope.views.costs import STATED, CallKind, find_calls
from solscope.views.operators import hardware_of, named_hardware

_CHUNK = 1 << 20
"""Bytes that are hashed at a time."""


@dataclass(frozen=True)
class ExtractOptions:
    """What a caller may change about reading profiles for a store."""

    tags: tuple[tuple[str, str], ...] = ()
    """Override what trace and sidecar state."""
    keep_events: bool = False
    model: Model | None = None
    """A model's config: sizes of kernels without recorded shapes."""
    read: ReadOptions = field(default_factory=lambda: ReadOptions(cache=False))
    redact: bool = False
    """Whether private text is removed before the store sees it."""


def extract(path: str, options: ExtractOptions | None = None) -> Extract:
    """Read a profile and reduce it to the rows of a store."""
    options = options or ExtractOptions()
    return reduce(path, open_profile(path, options=options.read), content_id(path), options)


def reduce(path: str, profile: Profile, identity: str, options: ExtractOptions) -> Extract:
    """The rows of a store for a profile that is open."""
    attributed = attribute(profile)
    card = hardware_of(attributed)
    about = describe(profile, Path(demo.resolve(path)), dict(options.tags), options.model, card)
    card = card or _tagged_hardware(about)
    times = (
        _aggregate_times(attributed)
        if profile.is_aggregate
        else _call_times(attributed, options.model, card)
    )
    steps = _steps(attributed)
    events = _events(profile) if options.keep_events else None
    row = {
        "id": identity,
        "file": plain_text(path),
        "file_bytes": _size(path),
        "format": profile.format,
        "solscope": __version__,
        **about.columns,
        "hardware": None if card is None else card.name,
        "events": profile.metadata.events_in_file,
        "kept_events": 0 if events is None else events.height,
        **_sums(attributed, times),
        "steps": steps.height,
        "times_rows": times.height,
        "times_sha256": rows_hash(times),
        "steps_sha256": rows_hash(steps),
    }
    extract = Extract(row, times, steps, events)
    return redacted_extract(extract, profile) if options.redact else extract


def content_id(path: str) -> str:
    """SHA-256 of a file, or of the files of a saved profile."""
    file = Path(demo.resolve(path))
    if file.exists() and not file.is_file() and not file.is_dir():
        raise InputError(f"{path}: a pipe or device can be read only once; copy it to a file")
    digest = hashlib.sha256()
    files = sorted(file.iterdir()) if is_saved_profile(file) else [file]
    for member in files:
        with member.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def _size(path: str) -> int:
    file = Path(demo.resolve(path))
    files = file.iterdir() if file.is_dir() else [file]
    return sum(file.stat().st_size for file in files)


def _tagged_hardware(about: Description) -> Hardware | None:
    """The GPU named by a tag, if the profile names none; null if it has no hardware file."""
    name = about.columns["gpu"]
    if not about.gpu_is_tagged or name is None or name.endswith(".toml"):
        return None
    try:
        return named_hardware(name)
    except SolscopeError:
        return None


def _sums(attributed: Attributed, times: pl.DataFrame) -> dict[str, int]:
    """Totals from the profile itself, so that the rows of `times` can be checked against them."""
    profile = attributed.profile
    if profile.is_aggregate:
        activities = int(profile.aggregates["calls"].sum())
        total = int(profile.aggregates["total_ns"].sum())
    else:
        gpu = profile.events.filter(pl.col("kind").is_in(GPU_KINDS))
        activities, total = gpu.height, int(gpu["dur_ns"].sum())
    by_phase = dict(times.group_by("phase").agg(pl.col("time_ns").sum()).iter_rows())
    phases = {f"{phase}_ns": by_phase.get(phase, 0) for phase in ("prefill", "decode", "mixed")}
    return {"activities": activities, "gpu_ns": total, **phases}


def _call_times(attributed: Attributed, model: Model | None, card: Hardware | None) -> pl.DataFrame:
    rows = _with_leads(_rows_of_calls(attributed, model, card))
    lead_ns = pl.col("call_ns").filter("leads")
    grouped = rows.group_by(KEYS).agg(
        pl.len().cast(pl.Int64).alias("launches"),
        pl.col("dur_ns").sum().alias("time_ns"),
        pl.col("leads").sum().cast(pl.Int64).alias("calls"),
        lead_ns.sum().alias("call_ns"),
        *(pl.col(name).first() for name in ("bound_us", "expected_us", "limiter")),
        to_bits(lead_ns).value_counts(sort=False).alias("durations"),
    )
    return _ordered(
        grouped.with_columns(
            *(
                (pl.col(f"{name}_us") * 1e3 * pl.col("calls")).round().cast(pl.Int64).alias(column)
                for name, column in (("bound", "bound_ns"), ("expected", "expected_ns"))
            ),
            *_split_durations(),
        )
    )


def _rows_of_calls(
    attributed: Attributed, model: Model | None, card: Hardware | None
) -> pl.DataFrame:
    """Every activity with the call it belongs to; without a known cost it is one by itself."""
    table = find_calls(attributed, model)
    kinds = pl.DataFrame(
        [_kind_row(kind_index, kind, card) for kind_index, kind in enumerate(table.kinds)],
        schema=_KIND_SCHEMA,
    )
    rows = (
        attributed.activities.select(
            *("row", "step"),
            *(pl.col(n).cast(pl.String) for n in ("phase", "layer_kind", "role", "category")),
            pl.col("operator").cast(pl.String).alias("named"),
            pl.col("name").cast(pl.String).alias("kernel"),
            pl.col("dur_ns").fill_null(0),
        )
        .join(table.activities, on="row", how="left", maintain_order="left")
        .join(table.calls.select("call", "kind"), on="call", how="left", maintain_order="left")
        .join(kinds, on="kind", how="left", maintain_order="left")
        .with_columns(_stage(attributed))
    )
    alone = pl.col("operator").is_null()
    return rows.with_columns(
        pl.when(alone).then(-1 - pl.col("row").cast(pl.Int64)).otherwise("call").alias("call"),
        pl.coalesce("operator", "named").alias("operator"),
    )


def _with_leads(rows: pl.DataFrame) -> pl.DataFrame:
    """Mark the longest activity of each call, in whose row the call is counted with its time."""
    leads = rows.sort("dur_ns", "row", descending=[True, False]).unique(
        "call", keep="first", maintain_order=True
    )
    return rows.with_columns(
        pl.col("row").is_in(leads["row"].implode()).alias("leads"),
        pl.col("dur_ns").sum().over("call").alias("call_ns"),
    )


_KIND_SCHEMA = {
    "kind": pl.UInt32(),
    "op": pl.String(),
    "operator": pl.String(),
    "axes": pl.String(),
    "source": pl.String(),
    "bound_us": pl.Float64(),
    "expected_us": pl.Float64(),
    "limiter": pl.String(),
}


def _kind_row(number: int, kind: CallKind, card: Hardware | None) -> dict[str, Any]:
    """One kind of call, with its bound where there is one."""
    row: dict[str, Any] = {"kind": number, "op": kind.op, "operator": kind.operator}
    if kind.operator is None or kind.cost is None:
        return row
    row["axes"] = msgspec.json.encode(kind.axes, order="sorted").decode()
    inferred = "inferred" if kind.inferred else "recorded"
    row["source"] = inferred if kind.source in (None, STATED) else "config"
    if card is None:
        return row
    least = bound(kind.cost, card)
    likely = None if kind.expected is None else bound(kind.expected, card).time_us
    return {**row, "bound_us": least.time_us, "expected_us": likely, "limiter": least.limiter}


def _stage(attributed: Attributed) -> pl.Expr:
    """The phase, or the stage that the whole recording is of."""
    stage = pl.lit(attributed.profile.metadata.stage, pl.String)
    return pl.coalesce("phase", stage).alias("phase")


def _split_durations() -> list[pl.Expr]:
    """Pairs of duration and count, sorted by duration, as two lists."""
    pairs = pl.col("durations").list.sort()
    return [
        pairs.list.eval(pl.element().struct[0]).cast(pl.List(pl.Int64)).alias("durations_ns"),
        pairs.list.eval(pl.element().struct[1]).cast(pl.List(pl.Int64)).alias("durations_calls"),
    ]


def _aggregate_times(attributed: Attributed) -> pl.DataFrame:
    """A summary has kernels and sums, but no single durations, shapes or layers."""
    empty = pl.lit([], pl.List(pl.Int64))
    names = ("phase", "layer_kind", "role", "op", "axes", "source", "limiter")
    rows = attributed.aggregates.select(
        *(pl.lit(None, pl.String).alias(name) for name in names),
        *(pl.col(name).cast(pl.String) for name in ("category", "operator")),
        pl.col("name").cast(pl.String).alias("kernel"),
        pl.col("calls").alias("launches"),
        pl.col("total_ns").alias("time_ns"),
        pl.col("calls"),
        pl.col("total_ns").alias("call_ns"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("bound_ns", "expected_ns")),
    ).with_columns(_stage(attributed))
    sums = rows.group_by(KEYS).agg(
        *(pl.col(name).sum() for name in ("launches", "time_ns", "calls", "call_ns")),
        *(pl.col(name).first() for name in ("bound_ns", "expected_ns", "limiter")),
    )
    return _ordered(sums.with_columns(empty.alias("durations_ns"), empty.alias("durations_calls")))


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns and order of the store, `entry` left out."""
    types = {name: dtype for name, dtype in schema("times").items() if name != "entry"}
    return rows.select(pl.col(name).cast(dtype) for name, dtype in types.items()).sort(
        KEYS, nulls_last=True
    )


def _steps(attributed: Attributed) -> pl.DataFrame:
    steps = attributed.steps
    spent = attributed.activities.group_by(pl.col("step").cast(pl.Int32)).agg(
        pl.col("dur_ns").sum().alias("gpu_ns")
    )
    types = {name: dtype for name, dtype in schema("steps").items() if name != "entry"}
    return (
        steps.join(spent, on="step", how="left", maintain_order="left")
        .with_columns(
            (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"), pl.col("gpu_ns").fill_null(0)
        )
        .select(pl.col(name).cast(dtype) for name, dtype in types.items())
        .sort("process", "step", nulls_last=True)
    )


def _events(profile: Profile) -> pl.DataFrame:
    types = {name: dtype for name, dtype in schema("events").items() if name != "entry"}
    return profile.events.select(pl.col(name).cast(dtype) for name, dtype in types.items())
