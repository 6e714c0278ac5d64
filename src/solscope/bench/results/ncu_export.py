"""Counters of kernel launches, as Nsight Compute exports them: `ncu --csv`, details or raw page.

The details page has a row per launch and metric, the raw page a row per launch, a column per metric
and a second row with the units. Values are grouped by thousands and scaled by their unit, which may
differ from launch to launch. What the program printed comes before the table.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from solscope.errors import InputError
from solscope.text import clean

MAX_BYTES = 256 << 20
"""A larger file is no export of a few calls."""
MAX_NAME = 400
"""Characters of a kernel's name that are kept."""
UNITS = {
    "": 1.0,
    "%": 1.0,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "Tbyte": 1e12,
    "ns": 1e-3,
    "nsecond": 1e-3,
    "us": 1.0,
    "usecond": 1.0,
    "ms": 1e3,
    "msecond": 1e3,
    "s": 1e6,
    "second": 1e6,
}
"""From a unit to bytes, microseconds or percent."""
TIME = ("gpu__time_duration.sum", "Duration")
READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
WRITTEN = ("dram__bytes_write.sum", "dram__bytes_op_write.sum")
MOVED = ("dram__bytes.sum",)
OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")
DRAM = ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput")
SM = ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput")
"""Names of the metrics that are read, as `--metrics` takes them and as sections show them."""
KNOWN = {name for names in (TIME, READ, WRITTEN, MOVED, OCCUPANCY, DRAM, SM) for name in names}


class Launch(msgspec.Struct, frozen=True):
    """One launch of a kernel; null where the export has no such metric."""

    kernel: str
    time_us: float | None = None
    dram_bytes: float | None = None
    """Read and written."""
    occupancy_pct: float | None = None
    dram_pct: float | None = None
    """Share of the peak bandwidth."""
    sm_pct: float | None = None
    """Share of the peak of the busiest pipe of the SMs."""


def read_export(path: Path) -> list[Launch]:
    """Launches of a file, in order."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: over {MAX_BYTES >> 20} MiB, too large for an export of ncu")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    return parse_export(text, str(path))


def parse_export(text: str, where: str) -> list[Launch]:
    """Launches of an export, in order; `where` is named in errors."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise InputError(f'{where}: no table of ncu --csv in it (no line begins with "ID")')
    table = [line for line in lines[start:] if line.startswith('"')]
    try:
        rows = list(csv.DictReader(table))
    except csv.Error as error:
        raise InputError(f"{where}: {error}") from None
    if "Kernel Name" not in (rows[0] if rows else {}):
        raise InputError(f"{where}: the table has no kernels")
    _check_whole(table, rows, where)
    launches = _details(rows, where) if "Metric Name" in rows[0] else _raw(rows, where)
    return [_launch(name, metrics) for name, metrics in launches]


_Metrics = dict[str, float]
LAUNCH = ("Host Name", "Process ID", "ID", "Kernel Name")
"""Columns that tell launches apart: every process numbers its own."""
NEEDED = {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"} | KNOWN
"""Columns that a row has a value in, even an empty one, where the table has them."""


def _check_whole(table: Sequence[str], rows: Sequence[Mapping[str, str]], where: str) -> None:
    """Refuse a table that was cut off: its sums would be too small."""
    for number, row in enumerate(rows, 1):
        if any(row[column] is None for column in NEEDED & row.keys()):
            raise InputError(
                f"{where}: row {number} of the table is incomplete; was the file cut off?"
            )
    if table[-1].count('"') % 2:
        raise InputError(f"{where}: the last row is incomplete; was the file cut off?")


def _details(rows: Iterable[Mapping[str, str]], where: str) -> Iterator[tuple[str, _Metrics]]:
    by_launch: dict[tuple[str | None, ...], tuple[str, _Metrics]] = {}
    for row in rows:
        name = row["Kernel Name"]
        key = tuple(row.get(column) for column in LAUNCH)
        _, metrics = by_launch.setdefault(key, (name, {}))
        metric = row["Metric Name"]
        if metric in KNOWN:
            unit, value = row.get("Metric Unit"), row.get("Metric Value")
            metrics |= _value(metric, unit or "", value or "", where)
    yield from by_launch.values()


def _raw(rows: Sequence[Mapping[str, str]], where: str) -> Iterator[tuple[str, _Metrics]]:
    units = rows[0]
    for row in rows[1:]:
        metrics: _Metrics = {}
        for metric in KNOWN & row.keys():
            metrics |= _value(metric, units[metric] or "", row[metric] or "", where)
        yield row["Kernel Name"], metrics


def _value(metric: str, unit: str, text: str, where: str) -> _Metrics:
    """The value in bytes, microseconds or percent; nothing where ncu could not measure it."""
    if text.strip().lower() in ("", "n/a", "nan"):
        return {}
    if unit not in UNITS:
        raise InputError(f"{where}: {clean(metric)} has the unit {clean(unit)!r}, which is unknown")
    try:
        value = float(text.replace(",", "")) * UNITS[unit]
    except ValueError:
        raise InputError(f"{where}: {clean(metric)} is {clean(text)!r}, not a number") from None
    return {metric: value} if 0 <= value < float("inf") else {}


def _launch(name: str, metrics: _Metrics) -> Launch:
    def first(names: Sequence[str]) -> float | None:
        return next((metrics[name] for name in names if name in metrics), None)

    read, written, moved = first(READ), first(WRITTEN), first(MOVED)
    both = None if read is None or written is None else read + written
    return Launch(
        kernel=clean(name)[:MAX_NAME],
        time_us=first(TIME),
        dram_bytes=moved if both is None else both,
        occupancy_pct=first(OCCUPANCY),
        dram_pct=first(DRAM),
        sm_pct=first(SM),
    )
