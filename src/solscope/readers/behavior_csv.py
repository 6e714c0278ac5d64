"""Behavior CSVs: time and counters by cycle and function, as cycle-based tools write them.

One row per cycle, function and metric: `cycle, pid, beta_pct, function_name, metric_name, device,
func_type, mu_pct, sigma_pct, duration, anchor_name, anchor_dur_us, cycle_start_ts, instances_count`
and more, in any order; durations are microseconds, `cycle_start_ts` is Unix time in microseconds.
Counter samples are in a file next to it: `counter_name, timestamp, value` (`X_perf_data.csv` and
`X_counters_data.csv`, or `X.behavior.csv` and `X.counters.csv`); alone they are a profile without
events.

The rows become the cycle table. A metric `N/A` (no counter was read in that cycle) is null there,
and is counted, never dropped: it is most of the rows where cycles are shorter than the period of
the counters. The GPU functions, each once per cycle, also become the aggregate table, from which
the views of kernels are made. There is no time line inside a cycle.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from solscope.errors import DamagedFileError, InputError
from solscope.events import AGGREGATE_SCHEMA, CYCLE_SCHEMA, EVENT_SCHEMA, METRIC_SCHEMA, conform
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_DUR_NS, MAX_TIME_NS, Head, ReadOptions
from solscope.readers.source import read_all

LIMIT_BYTES = 1 << 30
_NEEDED = {"cycle", "function_name", "beta_pct", "anchor_name", "anchor_dur_us"}
_COUNTERS = {"counter_name", "timestamp", "value"}
_USED = (
    "cycle", "pid", "hostname", "beta_pct", "function_name", "metric_name", "device", "func_type",
    "mu_pct", "sigma_pct", "duration", "interpolation_status", "anchor_name", "anchor_dur_us",
    "cycle_start_ts", "instances_count",
)  # fmt: skip
_NO_TEXT = ("", "N/A", "NA", "nan", "NaN", "None", "null")
_BESIDE = (
    (re.compile(r"perf_data(?=\.csv)"), "counters_data"),
    (re.compile(r"\.behavior(?=\.csv)"), ".counters"),
)
_MAX_CALLS = 10**15


class BehaviorCsvReader:
    """Time, calls and counters by cycle and function, as cycle-based diagnosis tools write them.

    Also the samples of their counters. Columns and units: [behavior CSV](behavior-csv.md).

    **Accepts**: CSV whose header names at least `cycle`, `function_name`, `beta_pct`, `anchor_name`
    and `anchor_dur_us`, in any order; or counters with `counter_name`, `timestamp` and `value`.
    Plain, gzip, zstd or xz. At most 1 GiB.

    **Fills** the [cycle table](events.md#cycle-table), and the aggregate table from its GPU
    functions. A metric `N/A` is null and counted, never dropped. Counter files (`X_perf_data.csv`
    and `X_counters_data.csv`, or `X.behavior.csv` and `X.counters.csv`) become the metric table.
    There is no timeline inside a cycle: span, busy, idle and exposed times are null.

    **Warnings**: `no_reading`, `several_anchors`, `several_processes`, `damaged_rows`,
    `metrics_only`, `metrics_damaged`.
    """

    name = "behavior_csv"
    summary = "behavior CSV: time, calls and counters by cycle and function"

    def sniff(self, head: Head) -> bool:
        """True when the first line names the columns that every such file has."""
        columns = set() if head.is_json else set(_columns(head.text))
        return columns >= _NEEDED or columns >= _COUNTERS

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read the cycles with their counters, or the counters alone."""
        data = read_all(path, options, LIMIT_BYTES)
        if set(_columns(data[:4096].decode("utf-8-sig", errors="replace"))) >= _COUNTERS:
            return _counters_alone(path, data)
        raw = _rows(data)
        cycles = _cycles(raw)
        if cycles.is_empty():
            raise DamagedFileError(f"{path}: none of {raw.height} rows is one of a cycle")
        profile = Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(
                events_in_file=raw.height,
                devices=tuple(Device(d) for d in sorted(cycles["device"].drop_nulls().unique())),
                host=_host(raw),
            ),
            events=EVENT_SCHEMA.to_frame(),
            aggregates=_aggregates(cycles),
            cycles=cycles,
            warnings=tuple(_warnings(cycles, raw.height)),
        )
        return _with_counters(profile, path, options)


READER = BehaviorCsvReader()


def _columns(text: str) -> list[str]:
    line = text.partition("\n")[0]
    return [cell.strip().strip('"') for cell in line.split(",")] if len(line) < 4096 else []


def _rows(data: bytes) -> pl.DataFrame:
    """All rows as text, with every column that is used; damaged lines have nulls."""
    head, _, body = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    names = _columns(head.decode("utf-8", errors="replace"))
    places = [f"c{index}" for index in range(len(names))]
    try:
        table = pl.read_csv(
            io.BytesIO(body),
            has_header=False,
            schema=dict.fromkeys(places, pl.String),
            truncate_ragged_lines=True,
        )
    except pl.exceptions.PolarsError:
        table = _from_lines(body.decode("utf-8", errors="replace"), places)
    # A name that occurs twice means its first column.
    column_of = dict(zip(reversed(names), reversed(places), strict=True))
    return table.select(
        pl.col(column_of[name]).str.strip_chars().alias(name)
        if name in column_of
        else pl.lit(None, pl.String).alias(name)
        for name in (*_USED, *sorted(_COUNTERS & column_of.keys()))
    )


def _from_lines(text: str, places: list[str]) -> pl.DataFrame:
    """The slow path for a file with stray quotes: each line is parsed on its own."""
    cells: list[list[str | None]] = []
    for line in filter(None, text.replace("\r\n", "\n").split("\n")):
        try:
            row = next(csv.reader([line]), [])
        except csv.Error:
            row = []
        cells.append([*row] if len(row) == len(places) else [None] * len(places))
    return pl.DataFrame(cells, schema=dict.fromkeys(places, pl.String), orient="row")


def _number(column: str) -> pl.Expr:
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def _ns(column: str) -> pl.Expr:
    """Microseconds as whole nanoseconds; in two parts, since Unix time has too many digits."""
    value = _number(column)
    whole = value.floor()
    fits = value.abs() * 1000.0 < float(MAX_TIME_NS)
    fraction = ((value - whole) * 1000.0).round().cast(pl.Int64, strict=False)
    return pl.when(fits).then(whole.cast(pl.Int64, strict=False) * 1000 + fraction)


def _text(column: str) -> pl.Expr:
    return pl.when(~pl.col(column).is_in(_NO_TEXT)).then(pl.col(column))


def _cycles(raw: pl.DataFrame) -> pl.DataFrame:
    """The good rows, as the cycle table.

    A row without time or share gets one from the other. A metric without a reading is no
    metric.
    """
    gpu = pl.col("device").str.extract(r"^(?i:gpu)\s*(\d{1,4})$").cast(pl.Int32, strict=False)
    table = raw.select(
        pl.col("cycle").cast(pl.Int64, strict=False),
        pl.col("pid").cast(pl.Int64, strict=False),
        _text("anchor_name").alias("anchor"),
        _ns("anchor_dur_us").alias("anchor_ns"),
        _ns("cycle_start_ts").alias("start_ns"),
        _text("function_name").alias("name"),
        _text("func_type").alias("resource"),
        gpu.alias("device"),
        _ns("duration").alias("dur_ns"),
        pl.col("instances_count").cast(pl.Int64, strict=False).alias("calls"),
        _number("beta_pct").alias("beta_pct"),
        _text("metric_name").alias("metric"),
        _number("mu_pct").alias("mu"),
        _number("sigma_pct").alias("sigma"),
        _text("interpolation_status").alias("estimated"),
    ).with_columns(
        pl.when(pl.col("mu").is_not_null()).then("metric").alias("metric"),
        pl.when(pl.col("metric").is_not_null()).then("mu").alias("mu"),
        pl.coalesce("beta_pct", 100.0 * pl.col("dur_ns") / pl.col("anchor_ns")).alias("beta_pct"),
        pl.coalesce(
            "dur_ns",
            (pl.col("beta_pct") * pl.col("anchor_ns") / 100.0).round().cast(pl.Int64, strict=False),
        ).alias("dur_ns"),
    )
    good = (
        pl.col("anchor_ns").is_between(1, MAX_DUR_NS)
        & pl.col("dur_ns").is_between(0, MAX_DUR_NS)
        & (pl.col("beta_pct") >= 0)
        & pl.all_horizontal(pl.col("cycle", "anchor", "name").is_not_null())
        & pl.col("calls").is_between(0, _MAX_CALLS).fill_null(True)
    )
    return conform(table.filter(good.fill_null(False)), CYCLE_SCHEMA)


def _aggregates(cycles: pl.DataFrame) -> pl.DataFrame:
    """GPU functions over all cycles; the rows that only differ in the metric count once."""
    name = pl.col("name").cast(pl.String)
    kind = (
        pl.when(name.str.starts_with("Memset"))
        .then(pl.lit("memset"))
        .when(pl.col("resource").cast(pl.String).str.contains("memcpy"))
        .then(pl.lit("memcpy"))
        .otherwise(pl.lit("kernel"))
    )
    once = cycles.filter(pl.col("device").is_not_null()).unique(
        ["pid", "cycle", "start_ns", "name", "device"], keep="first", maintain_order=True
    )
    # Calls are not always recorded; a function that ran was called at least once.
    table = (
        once.with_columns(kind.alias("kind"), pl.col("calls").fill_null(1).clip(lower_bound=1))
        .group_by("kind", "name", maintain_order=True)
        .agg(pl.col("calls").sum(), pl.col("dur_ns").sum().alias("total_ns"))
        .with_columns((pl.col("total_ns") / pl.col("calls")).alias("mean_ns"))
    )
    return conform(table, AGGREGATE_SCHEMA)


def _host(raw: pl.DataFrame) -> str | None:
    hosts = raw.select(_text("hostname")).to_series().drop_nulls().unique()
    return str(hosts[0]) if hosts.len() == 1 else None


def _warnings(cycles: pl.DataFrame, rows: int) -> Iterator[ProfileWarning]:
    if damaged := rows - cycles.height:
        text = f"{damaged:,} of {rows:,} behavior rows are damaged and were skipped"
        yield ProfileWarning("damaged_rows", text)
    if without := cycles["metric"].null_count():
        yield ProfileWarning(
            "no_reading",
            f"{without:,} of {cycles.height:,} behavior rows "
            f"({100 * without / cycles.height:.0f} %) have no counter "
            "reading (N/A): their times count, but say nothing of a resource",
        )
    anchors = cycles.unique(["pid", "cycle", "anchor"])["anchor"].value_counts(sort=True)
    if anchors.height > 1:
        named = ", ".join(f"{anchor} ({count})" for anchor, count in anchors.rows()[:3])
        yield ProfileWarning(
            "several_anchors", f"cycles of {anchors.height} sorts in one file: {named}"
        )
    if cycles["pid"].n_unique() > 1:
        yield ProfileWarning(
            "several_processes",
            f"cycles of {cycles['pid'].n_unique()} processes in one file: sums are over all of "
            "them, and a diagnosis compares one",
        )


def _with_counters(profile: Profile, path: Path, options: ReadOptions) -> Profile:
    """Add the counter samples of the cycles; damaged ones are left out, with a warning."""
    names = (pattern.sub(beside, path.name) for pattern, beside in _BESIDE)
    paths = (path.with_name(name) for name in names if name != path.name)
    beside = next((file for file in paths if file.is_file()), None)
    if beside is None:
        return profile
    try:
        table, warnings, rows = _counters(beside, read_all(beside, options, LIMIT_BYTES))
    except InputError as error:
        text = f"the counter file of these cycles could not be read: {error}"
        lost = ProfileWarning("metrics_damaged", text)
        return replace(profile, warnings=(*profile.warnings, lost))
    events = profile.metadata.events_in_file + rows
    return replace(
        profile,
        metrics=table,
        metadata=msgspec.structs.replace(profile.metadata, events_in_file=events),
        warnings=(*profile.warnings, *warnings),
    )


def _counters(path: Path, data: bytes) -> tuple[pl.DataFrame, list[ProfileWarning], int]:
    """Samples; the format does not say of which device, so that one time can have several."""
    raw = _rows(data)
    if not set(raw.columns) >= _COUNTERS:
        raise DamagedFileError(f"{path}: its columns are not {', '.join(sorted(_COUNTERS))}")
    samples = raw.select(
        _ns("timestamp").alias("t_ns"),
        _text("counter_name").alias("metric"),
        _number("value").alias("value"),
    ).drop_nulls()
    samples = samples.filter(pl.col("t_ns") >= 0)
    if samples.is_empty():
        raise DamagedFileError(f"{path}: none of {raw.height} rows is a counter sample")
    damaged = raw.height - samples.height
    text = f"{damaged:,} of {raw.height:,} counter rows are damaged and were skipped"
    warnings = [ProfileWarning("damaged_rows", text)] if damaged else []
    return conform(samples, METRIC_SCHEMA), warnings, raw.height


def _counters_alone(path: Path, data: bytes) -> Profile:
    table, warnings, rows = _counters(path, data)
    text = "the file has counter samples only, no cycles"
    return Profile(
        path=str(path),
        format=READER.name,
        metadata=Metadata(events_in_file=rows),
        events=EVENT_SCHEMA.to_frame(),
        metrics=table,
        warnings=(ProfileWarning("metrics_only", text), *warnings),
    )
