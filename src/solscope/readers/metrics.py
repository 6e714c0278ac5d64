"""Samples of host and GPU sensors: CSV `t_ns,metric,device,value`, or Parquet with those columns.

`device` is `Host` or empty for a host sensor, `GPU 0` or `0` for a GPU. Opened alone, the file is a
profile without events; `attach_metrics` adds `X.metrics.csv` to the profile of `X.trace.json.gz`.
Samples outside the trace are kept; whoever uses them removes them.
A row whose time or value is not a number, or is too large to compute with, is skipped and counted.
Units, and which metrics are counters, are in `metric_kinds.py`.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from solscope.errors import DamagedFileError, InputError
from solscope.events import EVENT_SCHEMA, METRIC_SCHEMA, conform
from solscope.patterns import lazy_pattern
from solscope.profile import Metadata, Profile, ProfileWarning
from solscope.readers.base import Head, ReadOptions
from solscope.readers.find import metrics_beside
from solscope.readers.source import read_all

LIMIT_BYTES = 1 << 30
LARGEST = 1e60
"""No sensor reads more; fourth powers, which a test of means needs, stay finite."""
_COLUMNS = tuple(METRIC_SCHEMA)
_HEADER = lazy_pattern(r'\s*"?t_ns"?\s*,\s*"?metric"?\s*,\s*"?device"?\s*,\s*"?value"?\s*(?:\n|$)')
_CSV_SCHEMA = {"t_ns": pl.Int64, "metric": pl.String, "device": pl.String, "value": pl.Float64}
_PARQUET = b"PAR1"
_PARQUET_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Polars panics, rather than raises, on some damaged footers."""


class _Samples(NamedTuple):
    table: pl.DataFrame
    rows: int
    """Rows in the file, damaged ones included."""

    @property
    def warnings(self) -> tuple[ProfileWarning, ...]:
        damaged = self.rows - self.table.height
        if not damaged:
            return ()
        text = f"{damaged} of {self.rows} metrics rows are damaged and were skipped"
        return (ProfileWarning("damaged_rows", text),)


class MetricsReader:
    """Sensor samples: CSV with the header `t_ns,metric,device,value`, or Parquet of these columns.

    **Accepts**: `device` empty or `Host` for the host, `0` or `GPU 0` for a GPU. At most 1 GiB.

    **Fills** the [metric table](events.md#metric-table). A file `X.metrics.csv` or
    `X.metrics.parquet` next to `X.json`, `X.trace.json.gz`, `X.sqlite` and the like is loaded with
    that profile. Opened alone, it is a profile without events.

    **Warnings**: `metrics_only`, `damaged_rows`, `metrics_damaged`, `metrics_unaligned`,
    `metrics_outside`.
    """

    name = "metrics"
    summary = "sensor samples (t_ns, metric, device, value) as CSV or Parquet"

    def sniff(self, head: Head) -> bool:
        """True for the CSV header, or a Parquet file with exactly these columns."""
        if head.data[:4] == _PARQUET:
            return _is_metrics_parquet(head.path)
        return _HEADER.match(head.text) is not None

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read the samples as a profile without events."""
        samples = _read(path, options)
        alone = ProfileWarning("metrics_only", "the file has sensor samples only, no GPU activity")
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(events_in_file=samples.rows),
            events=EVENT_SCHEMA.to_frame(),
            metrics=samples.table,
            warnings=(alone, *samples.warnings),
        )


READER = MetricsReader()


def attach_metrics(profile: Profile, path: Path) -> Profile:
    """Add the samples of the metrics file next to `path`, if there is one.

    A damaged metrics file leaves the profile as it was, with a warning. A profile that has metrics
    keeps them.
    """
    beside = metrics_beside(path)
    if profile.metrics is not None or beside is None:
        return profile
    try:
        samples = _read(beside, ReadOptions())
    except InputError as error:
        text = f"the metrics file of this trace could not be read: {error}"
        return _warn(profile, ProfileWarning("metrics_damaged", text))
    with_samples = replace(profile, metrics=samples.table)
    return _warn(with_samples, *samples.warnings, *_placement(with_samples, beside))


def _warn(profile: Profile, *warnings: ProfileWarning) -> Profile:
    return replace(profile, warnings=(*profile.warnings, *warnings)) if warnings else profile


def _placement(profile: Profile, beside: Path) -> tuple[ProfileWarning, ...]:
    """A warning when no sample can be placed inside the trace."""
    offset = profile.metadata.unix_offset_ns
    if profile.metrics is None or profile.events.is_empty():
        return ()
    if offset is None:
        text = f"{beside.name} cannot be aligned with the trace, which has no wall clock"
        return (ProfileWarning("metrics_unaligned", text),)
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    first, last = profile.events.select(pl.col("start_ns").min(), end.max().alias("end")).row(0)
    if first is None or last is None:
        text = f"{beside.name} cannot be aligned with the trace, in which no event has a time"
        return (ProfileWarning("metrics_unaligned", text),)
    if profile.metrics["t_ns"].is_between(first + offset, last + offset).any():
        return ()
    text = f"no sample of {beside.name} falls within the trace; do they belong together?"
    return (ProfileWarning("metrics_outside", text),)


def _is_metrics_parquet(path: Path) -> bool:
    try:
        return tuple(pl.read_parquet_schema(path)) == _COLUMNS
    except _PARQUET_ERRORS:
        return False


def _read(path: Path, options: ReadOptions) -> _Samples:
    data = read_all(path, options, LIMIT_BYTES)
    if data[:4] == _PARQUET:
        raw = _from_parquet(path, data)
    elif _HEADER.match(data[:1024].decode("utf-8-sig", errors="replace")):
        raw = _from_csv(data.removeprefix(b"\xef\xbb\xbf"))
    else:
        raise DamagedFileError(f"{path}: the first line is not the header {','.join(_COLUMNS)}")
    table = _clean(raw)
    if table.is_empty():
        raise DamagedFileError(f"{path}: none of {raw.height} rows is a metrics sample")
    return _Samples(table, raw.height)


def _from_parquet(path: Path, data: bytes) -> pl.DataFrame:
    try:
        table = pl.read_parquet(io.BytesIO(data))
    except _PARQUET_ERRORS as error:
        first_line = (str(error).splitlines() or ["?"])[0]
        raise DamagedFileError(f"{path}: damaged Parquet file ({first_line})") from error
    if tuple(table.columns) != _COLUMNS:
        raise DamagedFileError(f"{path}: its columns are not {', '.join(_COLUMNS)}")
    return table


def _from_csv(data: bytes) -> pl.DataFrame:
    try:
        # No quoting: one stray quote would otherwise swallow the rest of the file.
        return pl.read_csv(io.BytesIO(data), schema=_CSV_SCHEMA, quote_char=None)
    except pl.exceptions.PolarsError:
        return _from_lines(data.decode("utf-8", errors="replace"))


def _from_lines(text: str) -> pl.DataFrame:
    """The slow path for a file with damaged rows: each line is parsed on its own."""
    lines = [line for line in text.replace("\r\n", "\n").split("\n")[1:] if line]
    cells = pl.Series("cells", lines, dtype=pl.String).str.split(",")
    whole = pl.when(pl.col("cells").list.len() == len(_COLUMNS)).then(pl.col("cells"))
    return pl.DataFrame([cells]).select(
        whole.list.get(index, null_on_oob=True).alias(name) for index, name in enumerate(_COLUMNS)
    )


def _clean(raw: pl.DataFrame) -> pl.DataFrame:
    """The good rows of `raw`, whose columns may be text."""
    text = raw.with_columns(
        pl.col(name).cast(pl.String).str.strip_chars(' "') for name in ("metric", "device")
    )
    ordinal = pl.col("device").str.extract(r"^(?i:gpu)?\s*(\d+)$").cast(pl.Int32, strict=False)
    host = pl.col("device").is_null() | pl.col("device").str.to_lowercase().is_in(["", "host"])
    table = text.select(
        pl.col("t_ns").cast(pl.Int64, strict=False),
        pl.col("metric").replace("", None),
        pl.when(host).then(-1).otherwise(ordinal).alias("device"),
        pl.col("value").cast(pl.Float64, strict=False),
    ).filter(pl.col("value").is_between(-LARGEST, LARGEST))
    table = table.drop_nulls().filter(pl.col("t_ns") >= 0)
    host_as_null = pl.when(pl.col("device") >= 0).then(pl.col("device"))
    return conform(table.with_columns(host_as_null.alias("device")), METRIC_SCHEMA)
