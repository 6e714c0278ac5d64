"""Tracks that solscope adds to a trace: steps, phases, layers, roles, categories and idle time.

Each becomes a thread of a process "solscope GPU n". A track is a table of slices: `name`,
`start_ns`, `dur_ns` and `args`, the inside of a JSON object. Roles and categories have one slice
per activity, and therefore one thread per stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import polars as pl

from solscope.attribution import Attributed
from solscope.intervals import union
from solscope.views.idle import CAUSES, idle_gaps

_DEVICE = ["rank", "device"]
_MANY_STREAMS = 16
"""A device with more streams gets one role and one category track, in as many lanes as it needs."""
_FAR = 64
"""Activities between two of one layer that make them two runs through it."""
_END = pl.col("start_ns") + pl.col("dur_ns")


class Track(NamedTuple):
    """One added track of one device."""

    rank: int | None
    device: int | None
    name: str
    slices: pl.DataFrame


def added_tracks(attributed: Attributed) -> Iterator[Track]:
    """All tracks of all devices, in the order in which a viewer should show them."""
    timed = attributed.activities.filter(pl.col("start_ns").is_not_null()).with_columns(
        pl.col("dur_ns").fill_null(0)
    )
    groups = timed.partition_by(_DEVICE, as_dict=True, maintain_order=True)
    for key in sorted(groups, key=lambda key: [_number(number) for number in key]):
        rank, device = key
        for name, slices in _of_device(attributed, groups[key]):
            if not slices.is_empty():
                yield Track(rank, device, name, slices)


def json_args(table: pl.DataFrame, names: dict[str, str], raw: tuple[str, ...] = ()) -> pl.Series:
    """Columns as the inside of a JSON object, nulls left out; `names` gives each column its key.

    The columns in `raw` hold JSON already.
    """
    used = {c: key for c, key in names.items() if c in table and table[c].null_count() < len(table)}
    if not used:
        return pl.Series("args", [""]).new_from_index(0, len(table))
    parts = [
        pl.concat_str(
            pl.lit(f",{quote(key)}:"),
            (table[column] if column in raw else json_value(table[column])).alias(column),
        )
        for column, key in used.items()
    ]
    joined = pl.concat_str(parts, ignore_nulls=True).str.slice(1)
    return table.select(joined.alias("args"))["args"]


def json_value(column: pl.Series) -> pl.Series:
    """Each value as JSON text; texts are quoted once per distinct value."""
    if column.dtype.is_integer():
        return column.cast(pl.String)
    if column.dtype == pl.Boolean:
        return column.cast(pl.String)
    if column.dtype.is_float():
        return column.fill_nan(None).cast(pl.String)
    texts = column.cast(pl.String)
    quoted = {text: quote(text) for text in texts.unique().drop_nulls()}
    return texts.replace_strict(quoted, default=None, return_dtype=pl.String)


def quote(text: str) -> str:
    """`text` as a JSON string."""
    return msgspec.json.encode(text).decode()


def _of_device(attributed: Attributed, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "steps", _steps(attributed.steps, rows)
    yield "phases", _phases(rows)
    yield "layers", _layers(rows)
    streams = rows.partition_by(["stream"], as_dict=True)
    if len(streams) > _MANY_STREAMS:
        streams = {(None,): rows}
    for track, column in (("roles", "role"), ("categories", "category")):
        for (stream,), of_stream in sorted(streams.items(), key=lambda item: _number(item[0][0])):
            where = "" if stream is None else f", stream {stream}"
            yield track + where, _labels(of_stream, column)
    yield "idle", _idle(attributed, rows)


def _number(value: object) -> int:
    """A number to sort by; what has none comes first."""
    return value if isinstance(value, int) else -1


def _steps(steps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    bounds = _bounds(rows.filter(pl.col("step").is_not_null()), ["step"])
    placed = steps.select(
        "step", *(name for name in ("name", "phase", "requests", "tokens", "cut") if name in steps)
    )
    table = bounds.join(placed, on="step", how="left", maintain_order="left")
    names = pl.coalesce("name", pl.format("step {}", "step"))
    return _slices(table, names, [c for c in table.columns if c not in ("name", *_TIMES)])


def _phases(rows: pl.DataFrame) -> pl.DataFrame:
    table = _bounds(rows.filter(pl.col("phase").is_not_null()), ["step", "pass", "phase"])
    return _slices(table, pl.col("phase").cast(pl.String), ["step", "pass", "activities"])


def _layers(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["step", "pass", "phase", "place", "layer", "layer_kind"]
    ordered = rows.sort("start_ns", maintain_order=True).with_row_index("at")
    # A pass may run through its layers again and again (diffusion): then each time counts.
    apart = (pl.col("at").diff().over(keys) > _FAR).fill_null(False)
    placed = ordered.filter(pl.col("place").is_not_null())
    placed = placed.with_columns(apart.cast(pl.Int32).cum_sum().over(keys).alias("again"))
    table = _bounds(placed, [*keys, "again"])
    name = pl.when(pl.col("layer").is_not_null()).then(pl.format("layer {}", "layer"))
    return _slices(
        table, name.otherwise(pl.col("place").cast(pl.String)), [*keys[:3], keys[5], "activities"]
    )


def _labels(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """One slice per activity, named by `column`."""
    table = rows.filter(pl.col(column).is_not_null())
    return _slices(table, pl.col(column).cast(pl.String), ["row"])


def _idle(attributed: Attributed, rows: pl.DataFrame) -> pl.DataFrame:
    start = rows["start_ns"].to_numpy()
    table = idle_gaps(attributed, rows, union(start, start + rows["dur_ns"].to_numpy()))
    spent = [
        pl.when(pl.col(cause) > 0).then(pl.col(cause)).alias(f"{cause}_ns") for cause in CAUSES
    ]
    table = table.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"), *spent)
    return _slices(table, pl.format("idle: {}", "cause"), [f"{cause}_ns" for cause in CAUSES])


_TIMES = ("start_ns", "dur_ns")


def _bounds(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """First start to last end of each group, and how many activities it has."""
    return (
        rows.group_by(keys, maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            (_END.max() - pl.col("start_ns").min()).alias("dur_ns"),
            pl.len().alias("activities"),
        )
        .sort("start_ns", maintain_order=True)
    )


def _slices(table: pl.DataFrame, name: pl.Expr, columns: list[str]) -> pl.DataFrame:
    args = json_args(table, {column: column for column in columns})
    return table.select(name.alias("name"), *_TIMES, args.alias("args"))
