"""Kernel summaries of `nsys stats`: CSV, TSV, markdown, or the text report as printed or pasted.

Tables are found by their header line; text around them is ignored and counted. Reports
are distinguished by their columns: kernels (`Instances`, `Name`), copies and fills (`Count`,
`Operation`), both (`Category`); host calls, ranges and sizes are left out. Several tables of one
paste add up, but nothing counts twice: a later row that repeats name, calls and total of an earlier
table is skipped, and so is a row of an excerpt (a later table with fewer columns) that repeats name
and calls, even if its total differs, as in the seed.

Exactness: `total_ns` is the printed total to its last digit, never calls x mean. In the seed the
printed totals sum to 2,222.02 ms, which is the truth; calls x mean gives 2,222.43 ms, because the
rounding of a mean is multiplied by its calls. Without a printed mean, it is total / calls.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from solscope.errors import DamagedFileError
from solscope.events import AGGREGATE_SCHEMA, EVENT_SCHEMA
from solscope.profile import Metadata, Profile, ProfileWarning
from solscope.readers.base import Head, ReadOptions
from solscope.readers.recording import file_name_facts
from solscope.readers.source import read_all

LIMIT_BYTES = 256 << 20
_MAX_NS = 100 * 366 * 86_400 * 10**9
"""A century: beyond this a time is damage, and it would soon not fit into int64."""
_MAX_CALLS = 10**15

_UNIT_NAMES = {1: "ns nsec", 10**3: "us usec μs µs", 10**6: "ms msec", 10**9: "s sec"}
_UNITS = {name: factor for factor, names in _UNIT_NAMES.items() for name in names.split()}

Role = Literal[
    "percent", "total", "calls", "host_calls", "mean", "median", "min", "max", "std",
    "name", "operation", "range", "category", "grid", "size", "other",
]  # fmt: skip
_ROLE_HEADERS: dict[Role, str] = {
    "percent": "time",
    "total": "total time|total",
    "calls": "instances|operations|count",
    "host_calls": "num calls",
    "mean": "avg|average",
    "median": "med|median",
    "min": "min|minimum",
    "max": "max|maximum",
    "std": "stddev",
    "name": "name|kernel name",
    "operation": "operation",
    "range": "range|nvtx range",
    "category": "category",
    "grid": "gridxyz|blockxyz",
    "other": "style",
}
_ROLES = {header: role for role, names in _ROLE_HEADERS.items() for header in names.split("|")}
_TIMES: tuple[Role, ...] = ("total", "mean", "median", "min", "max", "std")
_NAMED: tuple[Role, ...] = ("name", "operation", "range")

_NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,2})?"
_CELL = re.compile(rf"({_NUMBER})\s*([a-zμµ%]*)", re.IGNORECASE)
_SIGNED = rf"(?:{_NUMBER}|[-+]?(?:nan|inf))(?:\s?%)?"
_NUMERIC = re.compile(_SIGNED, re.IGNORECASE)
_TEXT_ROW_START = re.compile(rf"\s*{_SIGNED}\s+{_SIGNED}", re.IGNORECASE)
_RULER = re.compile(r"[\s|:=-]+")
_PHRASES = "|".join(sorted((re.escape(name) for name in _ROLES), key=len, reverse=True))
_HEADER_CELL = re.compile(rf"\b({_PHRASES})\b(?:\s*\(([^()]*)\))?", re.IGNORECASE)
_TITLE = re.compile(r"\s*\*\* ")
_CHATTER = re.compile(r"\s*\*\* |Processing |Generating |Exporting |Using |SKIPPED|NOTICE")
"""Lines that `nsys stats` itself prints around its tables: nothing is lost with them."""

Layout = Literal["csv", "tsv", "markdown", "text"]
_DELIMITED: tuple[Layout, ...] = ("tsv", "csv", "markdown")


class _Column(NamedTuple):
    role: Role
    unit: int | None


@dataclass(frozen=True)
class _Table:
    layout: Layout
    columns: tuple[_Column, ...]
    refused: str | None
    """Why its rows are not GPU time by kernel; null when they are."""
    row: re.Pattern[str]
    """Matches one row of the text layout."""


class _Row(NamedTuple):
    """In the order of the aggregate table."""

    kind: str
    name: str
    calls: int
    total_ns: int
    mean_ns: float
    median_ns: float | None
    min_ns: int | None
    max_ns: int | None
    std_ns: float | None


@dataclass
class _Scanned:
    """What a text holds, as far as it has been read."""

    rows: list[_Row] = field(default_factory=list)
    tables: int = 0
    refused: list[str] = field(default_factory=list)
    refused_rows: int = 0
    damaged: list[int] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)
    repeated: int = 0
    seen: set[tuple[str, int, int | None]] = field(default_factory=set)
    """Rows of earlier tables; a null total matches any."""
    width: int = 0
    """Columns of the widest table so far."""

    @property
    def rows_in_file(self) -> int:
        return len(self.rows) + len(self.damaged) + self.repeated + self.refused_rows


class NsysStatsReader:
    """Kernel and memory summaries of `nsys stats`.

    CSV, TSV, markdown, the printed report, or any of these pasted into other text.

    **Accepts**: tables with a known header, with units in the header or in the cells (s, ms, us,
    μs, ns). Several tables in one file add up; a table that repeats earlier rows does not count
    twice. Tables of host calls, ranges and sizes are left out. UTF-16, as PowerShell writes it. At
    most 256 MiB.

    **Fills** the aggregate table; the event table stays empty. `total_ns` is the printed total to
    its last digit. There is no timeline: span, busy, idle and exposed times are null.

    **Warnings**: `ignored_text`, `ignored_tables`, `damaged_rows`.
    """

    name = "nsys_stats"
    summary = "nsys stats kernel and memory summaries: CSV, TSV, markdown, printed or pasted text"

    def sniff(self, head: Head) -> bool:
        """True if the head has a summary header, followed by rows or by nothing."""
        if head.data.lstrip()[:1] in (b"{", b"["):
            return False
        text = _decode(head.data)
        if "\0" in text:
            return False
        scanned = _scan(text)
        return scanned.tables > 0 and (scanned.rows_in_file > 0 or not scanned.ignored)

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read all tables of the file into the aggregate table."""
        scanned = _scan(_decode(read_all(path, options, LIMIT_BYTES)))
        if not scanned.rows:
            raise DamagedFileError(f"{path}: {_nothing(scanned)}")
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(events_in_file=len(scanned.rows), stage=file_name_facts(path).stage),
            events=EVENT_SCHEMA.to_frame(),
            aggregates=pl.DataFrame(scanned.rows, schema=AGGREGATE_SCHEMA, orient="row"),
            warnings=tuple(_warnings(scanned)),
        )


READER = NsysStatsReader()


def _decode(data: bytes) -> str:
    # A PowerShell redirect writes UTF-16.
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return data.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def _scan(text: str) -> _Scanned:
    scanned = _Scanned()
    table: _Table | None = None
    # Not splitlines(): a kernel name may hold any other character that Unicode calls a line break.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if header := _header(line):
            table = _admit(header, scanned)
        elif _TITLE.match(line):
            table = None
        elif line and not _RULER.fullmatch(line):
            _take(line, number, table, scanned)
    return scanned


def _admit(table: _Table, scanned: _Scanned) -> _Table:
    by_grid = any(column.role == "grid" for column in table.columns)
    scanned.tables += any(column.role == "total" for column in table.columns)
    if table.refused is None and by_grid and scanned.rows:
        # The same launches as in the summary above it.
        table = replace(table, refused="the same kernels by grid")
    if table.refused is not None:
        scanned.refused.append(table.refused)
        return table
    scanned.seen = {(row.name, row.calls, row.total_ns) for row in scanned.rows}
    if len(table.columns) < scanned.width:
        scanned.seen |= {(row.name, row.calls, None) for row in scanned.rows}
    scanned.width = max(scanned.width, len(table.columns))
    return table


def _take(line: str, number: int, table: _Table | None, scanned: _Scanned) -> None:
    """File one line that is neither header nor ruler under rows, damaged, repeated or ignored."""
    cells = _cells(line, table) if table else None
    if table is None or cells is None:
        if not _CHATTER.match(line):
            scanned.ignored.append(number)
        return
    row = None if table.refused else _row(cells, table.columns)
    if table.refused or (row and row.kind == "runtime"):
        scanned.refused_rows += 1
    elif row is None:
        scanned.damaged.append(number)
    elif {(row.name, row.calls, row.total_ns), (row.name, row.calls, None)} & scanned.seen:
        scanned.repeated += 1
    else:
        scanned.rows.append(row)


def _header(line: str) -> _Table | None:
    lower = line.lower()
    if not ("time" in lower or "total" in lower) or len(line) > 2000:
        return None
    for layout in _DELIMITED:
        table = _table(layout, _split(line, layout))
        if table is not None:
            return table
    if _HEADER_CELL.sub("", line).strip():
        return None
    return _table("text", [match[0] for match in _HEADER_CELL.finditer(line)])


def _table(layout: Layout, cells: list[str]) -> _Table | None:
    columns = tuple(map(_column, cells))
    roles = {column.role for column in columns}
    if not roles & {"calls", "host_calls"} or not roles & {"percent", "size", *_TIMES}:
        return None
    named = [index for index, column in enumerate(columns) if column.role in _NAMED]
    # In text without delimiters, only a name in the last column can be separated from other cells.
    if not named or (layout == "text" and named != [len(columns) - 1]):
        return None
    return _Table(layout, columns, _refusal(columns, cells), _row_pattern(columns))


def _column(cell: str) -> _Column:
    match = _HEADER_CELL.fullmatch(cell.strip())
    if match is None:
        return _Column("other", None)
    role, inside = _ROLES[match[1].lower()], (match[2] or "").strip()
    unit = _UNITS.get(inside.lower())
    if role in _TIMES and inside and unit is None:
        return _Column("size", None)
    if role == "total" and unit is None and match[1].lower() == "total":
        return _Column("other", None)
    return _Column(role, unit)


def _refusal(columns: tuple[_Column, ...], cells: list[str]) -> str | None:
    roles = {column.role for column in columns}
    if "range" in roles:
        return "ranges"
    if "total" not in roles:
        return "sizes"
    counted = {cell.strip().lower() for cell in cells} & {"count", "operations"}
    if "host_calls" in roles or ("name" in roles and counted):
        return "host calls"
    return None


def _row_pattern(columns: tuple[_Column, ...]) -> re.Pattern[str]:
    return re.compile(r"\s*" + r"\s+".join(map(_cell_pattern, columns)), re.IGNORECASE)


def _cell_pattern(column: _Column) -> str:
    if column.role == "percent":
        return rf"({_NUMBER}(?:\s?%)?)"
    if column.role in _TIMES and column.unit is None:
        return rf"({_NUMBER}(?:\s?(?:{'|'.join(_UNITS)})(?=\s))?)"
    if column.role in (*_TIMES, "calls", "host_calls", "size"):
        return rf"({_NUMBER})"
    if column.role == "grid":
        return r"(\d+\s+\d+\s+\d+)"
    return r"(\S.*)" if column.role in _NAMED else r"(\S+)"


def _split(line: str, layout: Layout) -> list[str]:
    if layout == "tsv":
        return line.split("\t")
    if layout == "csv":
        try:
            return next(csv.reader([line]), [])
        except csv.Error:
            return []
    return [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _cells(line: str, table: _Table) -> list[str] | None:
    """The cells of a row, empty if it is damaged; null if the line is not a row."""
    if table.layout == "text":
        match = table.row.fullmatch(line)
        if match is not None:
            return list(match.groups())
        return [] if _TEXT_ROW_START.match(line) else None
    cells = _split(line, table.layout)
    if len(cells) == len(table.columns):
        return cells
    return [] if len(cells) > 1 and _NUMERIC.fullmatch(cells[0].strip()) else None


def _row(cells: list[str], columns: tuple[_Column, ...]) -> _Row | None:
    if len(cells) != len(columns):
        return None
    texts = {column.role: cell.strip() for column, cell in zip(columns, cells, strict=True)}
    units = {column.role: column.unit for column in columns}
    try:
        times = {role: _time(texts.get(role, ""), units.get(role)) for role in _TIMES}
        calls = _calls(texts["calls"])
        _percent(texts.get("percent", ""))
    except ValueError:
        return None
    name = texts.get("name") or texts.get("operation")
    low, high, total = times["min"], times["max"], times["total"]
    if not name or total is None or (low is not None and high is not None and low > high):
        return None
    return _Row(
        kind=_kind(name, texts.get("category"), "operation" in texts),
        name=name,
        calls=calls,
        total_ns=round(total),
        mean_ns=float(total / calls if times["mean"] is None else times["mean"]),
        median_ns=None if times["median"] is None else float(times["median"]),
        min_ns=None if low is None else round(low),
        max_ns=None if high is None else round(high),
        std_ns=None if times["std"] is None else float(times["std"]),
    )


def _kind(name: str, category: str | None, operation: bool) -> str:
    if category == "CUDA_API":
        return "runtime"
    if category == "CUDA_KERNEL" or not (operation or name.startswith("[CUDA ")):
        return "kernel"
    return "memset" if "memset" in name.lower() else "memcpy"


def _number(text: str) -> tuple[Decimal, str]:
    match = _CELL.fullmatch(text)
    if match is None or len(match[1]) > 40:
        raise ValueError(text)
    return Decimal(match[1].replace(",", "")), match[2].lower()


def _time(text: str, unit: int | None) -> Decimal | None:
    if not text:
        return None
    number, suffix = _number(text)
    factor = _UNITS.get(suffix) if suffix else unit or 1
    if factor is None or not 0 <= number * factor <= _MAX_NS:
        raise ValueError(text)
    return number * factor


def _calls(text: str) -> int:
    number, suffix = _number(text)
    if suffix or not 1 <= number <= _MAX_CALLS or number % 1:
        raise ValueError(text)
    return int(number)


def _percent(text: str) -> None:
    """Raise when the share is none; its value is not kept, since the totals say it better."""
    number, suffix = _number(text) if text else (Decimal(0), "")
    if suffix not in ("", "%") or not 0 <= number <= 100:
        raise ValueError(text)


def _nothing(scanned: _Scanned) -> str:
    if scanned.refused and not scanned.damaged:
        kinds = ", ".join(sorted(set(scanned.refused)))
        return f"holds only {kinds}, no GPU time by kernel; use nsys stats -r cuda_gpu_kern_sum"
    if scanned.damaged:
        return f"no row of the kernel table can be read (the first is line {scanned.damaged[0]})"
    return "the kernel table has no rows"


def _warnings(scanned: _Scanned) -> Iterator[ProfileWarning]:
    parts = []
    if scanned.ignored:
        count, first = len(scanned.ignored), scanned.ignored[0]
        parts.append(
            f"{count} lines, from line {first} on, are not part of a table and were ignored"
        )
    if scanned.repeated:
        parts.append(f"{scanned.repeated} rows of later tables repeat kernels and were skipped")
    if parts:
        yield ProfileWarning("ignored_text", "; ".join(parts))
    if scanned.refused or scanned.refused_rows:
        kinds = ", ".join(sorted(set(scanned.refused) or {"host calls"}))
        text = f"{scanned.refused_rows} rows are not GPU time by kernel ({kinds}) and were ignored"
        yield ProfileWarning("ignored_tables", text)
    if scanned.damaged:
        count, first = len(scanned.damaged), scanned.damaged[0]
        text = f"{count} damaged rows, the first in line {first}, were left out of the totals"
        yield ProfileWarning("damaged_rows", text)
