"""`solscope corpus`: in the terminal, and answers as Markdown."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import polars as pl

from solscope.corpus.ingest.add import AddResult
from solscope.corpus.queries.importance import UNMAPPED, Importance, ImportanceRow
from solscope.corpus.queries.listing import ListedProfile
from solscope.corpus.queries.shapes import HotShape, HotShapes
from solscope.corpus.queries.trend import Trend, TrendChange
from solscope.corpus.status import CorpusStatus
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import Ready
from solscope.report.layout.quantities import counted, number, pct
from solscope.report.layout.tables import Column, heading, numbers, table, with_bars
from solscope.report.results import corpus_watch  # noqa: F401 - has a form.
from solscope.report.results.corpus_maintenance import (
    failed_files,
    leftovers_text,
    truncated_files,
)
from solscope.report.results.operators import axes_text
from solscope.text import clean, shorten
from solscope.views.hotspots import TARGET_PCT


@form("corpus_add", AddResult)
def add_parts(result: AddResult, screen: Screen) -> list[Printable]:
    """Counts, and a row per file that failed."""
    counts = f"added {result.added:,}, skipped {result.skipped:,} (known content)"
    no_profiles = "that is not a profile" if result.ignored == 1 else "that are not profiles"
    others = f"; passed over {counted(result.ignored, 'file')} {no_profiles}"
    parts: list[Printable] = [
        Text(f"{counts}, failed {len(result.failed):,}{others if result.ignored else ''}")
    ]
    return parts + truncated_files(result.truncated) + failed_files(result.failed, screen.width)


@form("corpus_compact", CorpusStatus)
@form("corpus_init", CorpusStatus)
@form("corpus_status", CorpusStatus)
def status_parts(result: CorpusStatus, screen: Screen, *, url: str) -> list[Printable]:
    """What the store holds."""
    size = f"{result.bytes / 1e6:,.1f} MB in {counted(result.files, 'file')}"
    parts: list[Printable] = [
        heading(url),
        Text(f"{counted(result.profiles, 'profile')}, {counted(result.events, 'event')}"),
        Text(f"GPU time {result.gpu_ms:,.1f} ms"),
        Text(f"{size}; schema {result.store_schema}; {result.engine}"),
    ]
    if result.leftover_entries:
        parts.append(Text(leftovers_text(result.leftover_entries)))
    for title, counts in (
        ("GPU", result.gpus),
        ("model", result.models),
        ("framework", result.frameworks),
    ):
        columns = (Column("profiles"), Column(title, text=True))
        rows = [[f"{count:,}", name] for name, count in counts.items()]
        if rows:
            parts += [Text(""), table(columns, rows, screen.width)]
    return parts


_LIST = (
    Column("id", text=True),
    Column("recorded (UTC)", text=True, spare=2),
    Column("GPU", text=True, spare=1),
    Column("model", text=True, spare=4),
    Column("framework", text=True, spare=3),
    *numbers("GPU ms", ("prefill", 6), ("decode", 6)),
    Column("file", text=True),
)


class ProfileList(TypedDict):
    """The profiles of `solscope corpus list`."""

    profiles: list[ListedProfile]


@form("corpus_list", ProfileList)
def list_parts(result: ProfileList, screen: Screen) -> list[Printable]:
    """A row per profile."""
    rows = result["profiles"]
    cells = [
        [
            row.id[:12],
            date(row.recorded_ns),
            row.gpu or "-",
            row.model or "-",
            " ".join(filter(None, (row.framework, row.version))) or "-",
            number(row.gpu_ms, 1),
            pct(row.prefill_pct),
            pct(row.decode_pct),
            row.file,
        ]
        for row in rows
    ]
    parts: list[Printable] = [
        table(_LIST, cells, screen.width),
        Text(""),
        Text(counted(len(rows), "profile")),
    ]
    return parts


def date(nanoseconds: int | None) -> str:
    """Unix time as a date and a time of day; `-` for what does not exist or no calendar holds."""
    if nanoseconds is None:
        return "-"
    try:
        moment = datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "-"
    return moment.strftime("%Y-%m-%d %H:%M")


class Rows(TypedDict):
    """The rows of `solscope corpus query`."""

    rows: list[dict[str, Any]]


@form("corpus_query", Rows)
def query_parts(_: Rows, screen: Screen, *, frame: pl.DataFrame, limit: int) -> list[Printable]:
    """The first rows of the result of a query."""
    columns = [Column(name, text=not dtype.is_numeric()) for name, dtype in frame.schema.items()]
    if not columns:
        return [Text("no columns")]
    # No column that was asked for is left out: long texts give way.
    most = max(16, screen.width // len(columns))
    rows = [[shorten(_cell(v), most) for v in row] for row in frame.head(limit).iter_rows()]
    more = f" of {frame.height:,} (see --limit)" if frame.height > limit else ""
    parts: list[Printable] = [
        table(columns, rows, screen.width),
        Text(""),
        Text(counted(len(rows), "row") + more),
    ]
    return parts


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


_IMPORTANCE = (
    *numbers("importance", ("95 % interval", 3), ("profiles", 2), ("calls", 4)),
    # S is of all calls together, and so are the means; medians are of other calls.
    *numbers(
        ("mean µs", 5), ("bound µs", 5), ("p50 µs", 6), ("p90 µs", 7), ("S", 1), ("can be saved", 1)
    ),
    Column("name", text=True, code=True),
)

ALL_BOUNDED = 99.95
"""Percent of the time in calls with a bound from which on it is printed as all of it."""
MOST_PARTS = 4
"""Rows that are named where it is less."""
_RECOVERABLE = (
    f"can be saved = share of GPU time that is saved at {TARGET_PCT:.0f} % of the bound; "
    "`solscope hotspots`, which sees whole steps, counts less"
)


@form("corpus_importance", Importance)
def importance_parts(result: Importance, screen: Screen, *, top: int) -> list[Printable]:
    """Most important first; the printed shares add up to 100.00 %."""
    parts: list[Printable] = []
    if result.groups:
        for group in result.groups:
            named = ", ".join(f"{name} {value}" for name, value in group.group.items())
            parts += _shares(
                named, group.profiles, group.total_gpu_ms, group.rows, top, screen.width
            )
    else:
        by = f"by {result.by}"
        parts += _shares(by, result.profiles, result.total_gpu_ms, result.rows, top, screen.width)
    notes = [Text(result.definition)]
    tables = [group.rows for group in result.groups] or [result.rows]
    if any(row.recoverable_pct is not None for rows in tables for row in rows):
        notes.append(Text(_RECOVERABLE))
    notes += [Text(clean(text)) for text in _partly_bounded(tables, top)]
    notes += [Text(f"warning: {clean(text)}") for text in result.warnings]
    return [*parts, *notes]


def _partly_bounded(tables: Sequence[Sequence[ImportanceRow]], top: int) -> Iterator[str]:
    """What `bound µs` and S are of, where that is not all that `mean µs` is of."""
    parts = [
        f"{row.bound_cover_pct:.1f} % of the time of {_named(row)}"
        for rows in tables
        for row in [row for row in rows if row.key != UNMAPPED][:top]
        if row.bound_mean_us is not None and row.bound_cover_pct < ALL_BOUNDED
    ]
    if parts:
        more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
        yield (
            f"bound µs and S are of the calls that have a bound ({', '.join(parts[:MOST_PARTS])}"
            f"{more}), mean µs is of all calls"
        )


def _named(row: ImportanceRow) -> str:
    return row.key if row.axes is None else f"{row.operator} {axes_text(row.axes)}"


def _shares(
    title: str, profiles: int, total_ms: float, rows: list[ImportanceRow], top: int, width: int
) -> list[Printable]:
    mapped = [row for row in rows if row.key != UNMAPPED]
    shown = mapped[:top] + [row for row in rows if row.key == UNMAPPED]
    others = mapped[top:]
    shares = [row.importance_pct for row in shown] + [
        sum(row.importance_pct for row in others)
    ] * bool(others)
    printed = closing(shares)
    cells = [_importance_row(row, text) for row, text in zip(shown, printed, strict=False)]
    if others:
        calls = sum(row.calls for row in others)
        label = Ready(f"({len(others):,} more)")
        cells.insert(len(mapped[:top]), [printed[-1], "", "", f"{calls:,}", *[""] * 6, label])
    cells.append(["100.00 %", "", f"{profiles:,}", *[""] * 7, Ready("all")])
    return [heading(f"{title}: {total_ms:,.1f} ms"), table(_IMPORTANCE, cells, width), Text("")]


def closing(shares: Sequence[float]) -> list[str]:
    """Shares of 100 with two decimals that add up to 100.00: the largest remainders go up."""
    cents = [int(share * 100) for share in shares]
    missing = 10_000 - sum(cents)
    order = sorted(range(len(shares)), key=lambda index: cents[index] - shares[index] * 100)
    for index in order[: max(0, missing)]:
        cents[index] += 1
    return [f"{value // 100}.{value % 100:02d} %" for value in cents]


def _importance_row(row: ImportanceRow, share: str) -> list[str]:
    interval = "-" if row.ci95_pct is None else f"{row.ci95_pct[0]:.1f} to {row.ci95_pct[1]:.1f}"
    return [
        share,
        interval,
        f"{row.profiles:,}",
        f"{row.calls:,}",
        number(row.mean_us),
        number(row.bound_mean_us),
        number(row.p50_us),
        number(row.p90_us),
        pct(row.s_pct),
        pct(row.recoverable_pct),
        _named(row),
    ]


_SHAPES = (
    *numbers(
        "weight", "covered", ("calls", 3), ("profiles", 4), ("p50 µs", 1), ("bound µs", 2), ("S", 1)
    ),
    Column("GPU", text=True, spare=5),
    Column("axes", text=True),
)


@form("corpus_shapes", HotShapes)
def shapes_parts(result: HotShapes, screen: Screen, *, top: int) -> list[Printable]:
    """A table per operator: the fewest shapes that cover its time."""
    parts: list[Printable] = []
    for op in result.operators:
        if not op.shapes:
            continue
        listed = f"{counted(len(op.shapes), 'entry', 'entries')} for {op.distinct:,} shapes"
        title = f"{op.operator}: {op.importance_pct:.2f} % of GPU time; {listed}"
        parts += [heading(f"{title}; axes known for {op.known_pct:.0f} % of its time")]
        rows = [_shape_row(shape) for shape in op.shapes[:top]]
        if len(op.shapes) > top:
            more = f"({len(op.shapes) - top} more, see --top)"
            rows.append([*([""] * (len(_SHAPES) - 1)), more])
        parts += [table(_SHAPES, rows, screen.width), Text("")]
    unknown = [op.operator for op in result.operators if not op.shapes]
    if unknown:
        parts.append(Text(clean(f"no shapes are recorded for: {', '.join(unknown)}")))
    asked = f"fewest shapes that cover {100 * result.cover:.4g} % of an operator's time"
    rule = f"{asked}, over {counted(result.profiles, 'profile')}, weight {result.weight}"
    return [*parts, Text(rule)]


def _shape_row(shape: HotShape) -> list[str]:
    spans = " ".join(f"{name}={low}..{high}" for name, (low, high) in shape.spans.items())
    bucket = f" ({shape.shapes} shapes, {spans})" if shape.shapes > 1 else ""
    return [
        pct(100 * shape.weight),
        pct(100 * shape.cumulative),
        f"{shape.calls:,}",
        f"{shape.origin.profiles:,}",
        number(shape.p50_us),
        number(shape.bound_p50_us),
        pct(shape.s_pct),
        ", ".join(shape.origin.gpus) or "-",
        axes_text(shape.axes) + bucket,
    ]


@form("corpus_trend", Trend)
def trend_parts(result: Trend, screen: Screen, *, top: int) -> list[Printable]:
    """The latest points with changes marked, and the verdict."""
    phase = f" ({result.phase})" if result.phase else ""
    first = max(0, len(result.points) - top)
    changes = {change.at: change for change in result.changes}
    most = max((point.value for point in result.points), default=0.0) or 1.0
    points = result.points[first:]
    rows = [
        [point.label, number(point.value), _mark(changes.get(index)), point.file]
        for index, point in enumerate(points, start=first)
    ]
    columns = (
        Column(result.by, text=True),
        Column(result.unit),
        Column("change", text=True),
        Column("file", text=True, code=True),
    )
    shares = [100 * point.value / most for point in points]
    shown = f"the last {len(rows)} of {counted(len(result.points), 'profile')}"
    parts: list[Printable] = [
        heading(f"{result.what}{phase}, {result.unit}, by {result.by}; {shown}"),
        table(
            *with_bars(columns, rows, shares, at=3, draw=screen.draw, cells=BAR, spare=1),
            screen.width,
        ),
        Text(""),
        *(
            Text(clean(line), indent=indent)
            for change in result.changes
            for line, indent in (
                (_change_line(change, result.unit), 0),
                (f"why: {change.diagnose}", 2),
            )
        ),
    ]
    if result.left_out:
        left = f"{counted(result.left_out, 'profile')} left out: no {result.by}"
        parts.append(Text(clean(f"{left}, or no {result.what}")))
    return [*parts, Text(_verdict(result), style="bold")]


BAR = 24
"""Characters of the longest bar."""


def _mark(change: TrendChange | None) -> str:
    if change is None:
        return ""
    return "new" if change.change_pct is None else f"{change.change_pct:+.1f} %"


def _change_line(change: TrendChange, unit: str) -> str:
    return (
        f"change at {change.label}: {change.before:,.2f} -> {change.after:,.2f} {unit} "
        f"({_mark(change)}, p = {change.p_value:.3f}); first profile {change.file}"
    )


def _verdict(result: Trend) -> str:
    if result.regressed:
        return f"slower since the last change, by {result.min_change_pct:g} % or more"
    return "no change" if not result.changes else "the last change did not make it slower"


class ExportedSuite(TypedDict):
    """The suite of `solscope corpus export-suite`."""

    path: str
    operators: int
    shapes: int


@form("corpus_export_suite", ExportedSuite)
def _exported(result: ExportedSuite, _: Screen) -> str:
    return f"{result['path']}: {result['operators']} operators, {result['shapes']} shapes"


class Removed(TypedDict):
    """The ids of `solscope corpus remove`."""

    removed: list[str]
    dry_run: bool


@form("corpus_remove", Removed)
def _removed(result: Removed, _: Screen) -> str:
    done = "would remove" if result["dry_run"] else "removed"
    lines = [f"{done} {identity}" for identity in result["removed"]]
    return "\n".join(lines or ["nothing to remove"])
