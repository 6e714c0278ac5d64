"""Counters of kernel launches, as Nsight Compute exports them: `ncu --csv`, details or raw page.

The details page has a row per launch and metric, the raw page a row per launch, a column per metric
and a second row with the units. Values are grouped by thousands and scaled by their unit, which may
differ from launch to launch; where the locale has it so, the decimal mark is a comma. What the
program printed comes before the table.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from solscope.errors import InputError
from solscope.text import clean

MAX_BYTES = 256 << 20
"""A larger file is no export of a few calls."""
MOST = 1e18
"""Bytes or microseconds of a launch, at most: a larger number is a damaged one."""
LEAST_US = 1e-3
"""ncu counts nanoseconds."""
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
UNITS |= {
    f"{unit}/{second}": UNITS[unit]
    for unit in ("byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte")
    for second in ("s", "second")
}
TIME = ("gpu__time_duration.sum", "Duration")
READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
WRITTEN = ("dram__bytes_write.sum", "dram__bytes_op_write.sum")
MOVED = ("dram__bytes.sum",)
RATE = ("dram__bytes.sum.per_second", "Memory Throughput")
"""Bytes per second; sections also call the busiest unit's share so, in percent."""
OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")
DRAM = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput",
)
SM = ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput")
"""Names of the metrics that are read, as `--metrics` takes them and as sections show them."""
METRICS = (TIME, READ, WRITTEN, MOVED, RATE, OCCUPANCY, DRAM, SM)
KNOWN = {name for names in METRICS for name in names}
DECIMAL_POINT = re.compile(r"\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d+\.(\d{1,2}|\d{4,})")
DECIMAL_COMMA = re.compile(r"\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d{1,2}|\d{4,})")
"""Numbers that can be read in one way only: 1,024 and 1.024 cannot."""
WHOLE = {*TIME, *READ, *WRITTEN, *MOVED}
WHOLE_UNITS = {"ns", "nsecond", "byte"}
THOUSANDS_POINT = re.compile(r"[1-9]\d{0,2}\.\d{3}")
"""Nanoseconds and bytes are counted: in these metrics the point of 1.024 groups thousands."""


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
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # a pipe or a device has no size
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: over {MAX_BYTES >> 20} MiB, too large for an export of ncu")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell writes it
    return parse_export(data.decode("utf-16" if wide else "utf-8-sig", "replace"), str(path))


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
    by_metric = "Metric Name" in rows[0]
    comma = _has_decimal_comma(_numbers(rows, by_metric), where)
    page = _details if by_metric else _raw
    return [_launch(name, metrics) for name, metrics in page(rows, comma, where)]


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


def _numbers(rows: Sequence[Mapping[str, str]], by_metric: bool) -> list[tuple[str, bool]]:
    """Values that have a unit, and whether they are whole: what has no unit may be a list, 1,2."""
    if by_metric:
        return [
            (row["Metric Value"].strip(), _is_whole(row["Metric Name"], row["Metric Unit"]))
            for row in rows
            if row["Metric Unit"]
        ]
    units = {metric: rows[0][metric] for metric in sorted(KNOWN & rows[0].keys())}
    return [
        (row[metric].strip(), _is_whole(metric, unit))
        for row in rows[1:]
        for metric, unit in units.items()
        if unit
    ]


def _is_whole(metric: str, unit: str) -> bool:
    return metric in WHOLE and unit in WHOLE_UNITS


def _has_decimal_comma(numbers: Sequence[tuple[str, bool]], where: str) -> bool:
    """Whether numbers are written as 1.024,5; one file has one way, which some of them show."""
    values = [text for text, _ in numbers]
    point, comma = (
        next((text for text in values if form.fullmatch(text)), None)
        for form in (DECIMAL_POINT, DECIMAL_COMMA)
    )
    if point is not None and comma is not None:
        raise InputError(f"{where}: numbers of two locales in one table, {point} and {comma}")
    if point is None and comma is None:
        return any(whole and THOUSANDS_POINT.fullmatch(text) for text, whole in numbers)
    return comma is not None


def _details(
    rows: Iterable[Mapping[str, str]], comma: bool, where: str
) -> Iterator[tuple[str, _Metrics]]:
    by_launch: dict[tuple[str | None, ...], tuple[str, _Metrics]] = {}
    for row in rows:
        name = row["Kernel Name"]
        key = tuple(row.get(column) for column in LAUNCH)
        _, metrics = by_launch.setdefault(key, (name, {}))
        metric = row["Metric Name"]
        if metric in KNOWN:
            unit, value = row.get("Metric Unit") or "", row.get("Metric Value") or ""
            if metric not in RATE or unit != "%":
                metrics |= _value(metric, unit, value, comma, where)
    yield from by_launch.values()


def _raw(
    rows: Sequence[Mapping[str, str]], comma: bool, where: str
) -> Iterator[tuple[str, _Metrics]]:
    units = rows[0]
    for row in rows[1:]:
        metrics: _Metrics = {}
        for metric in KNOWN & row.keys():
            metrics |= _value(metric, units[metric] or "", row[metric] or "", comma, where)
        yield row["Kernel Name"], metrics


def _value(metric: str, unit: str, text: str, comma: bool, where: str) -> _Metrics:
    """The value in bytes, microseconds or percent; nothing where ncu could not measure it."""
    if text.strip().lower() in ("", "n/a", "nan"):
        return {}
    if unit not in UNITS and metric in RATE:
        return {}  # bytes and time say the same
    if unit not in UNITS:
        raise InputError(f"{where}: {clean(metric)} has the unit {clean(unit)!r}, which is unknown")
    try:
        plain = text.replace(".", "").replace(",", ".") if comma else text.replace(",", "")
        value = float(plain) * UNITS[unit]
    except ValueError:
        raise InputError(f"{where}: {clean(metric)} is {clean(text)!r}, not a number") from None
    least = LEAST_US if metric in TIME else 0.0
    return {metric: value} if least <= value <= MOST else {}


def _launch(name: str, metrics: _Metrics) -> Launch:
    def first(names: Sequence[str]) -> float | None:
        return next((metrics[name] for name in names if name in metrics), None)

    read, written, moved = first(READ), first(WRITTEN), first(MOVED)
    both = None if read is None or written is None else read + written
    time_us, rate = first(TIME), first(RATE)
    if both is None and moved is None and rate is not None and time_us is not None:
        moved = rate * time_us / 1e6  # sections show the rate alone
    return Launch(
        kernel=clean(name)[:MAX_NAME],
        time_us=time_us,
        dram_bytes=moved if both is None else both,
        occupancy_pct=first(OCCUPANCY),
        dram_pct=first(DRAM),
        sm_pct=first(SM),
    )
