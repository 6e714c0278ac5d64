"""`solscope kernels` in the terminal."""

from __future__ import annotations

from typing import TypedDict

from solscope.attribution.rule_set import Explanation
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import Ready
from solscope.report.layout.quantities import micro, number, pct
from solscope.report.layout.tables import (
    WIDE,
    Column,
    listing,
    numbers,
    table,
    warning_lines,
    with_bars,
)
from solscope.report.results.show.lines import coverage_line
from solscope.text import clean
from solscope.views.kernels import KernelRow, KernelTable
from solscope.views.summary import Summary


class KernelTables(TypedDict):
    """One table, in a list as other commands have it."""

    profiles: list[KernelTable]


@form("kernels", KernelTables)
def _kernels(
    result: KernelTables, screen: Screen, *, summary: Summary, top: int | None, full_names: bool
) -> list[Printable]:
    (table,) = result["profiles"]
    return kernels_parts(table, screen, summary=summary, top=top, full_names=full_names)


@form("kernels_explain", Explanation)
def _explanation(result: Explanation, _: Screen) -> str:
    return "\n".join(clean(line) for line in str(result).splitlines())


def kernels_parts(
    result: KernelTable, screen: Screen, *, summary: Summary, top: int | None, full_names: bool
) -> list[Printable]:
    """A row per group, most time first, with a total that closes."""
    shown = result.kernels[:top]
    rows = [_row(row, full_names) for row in shown]
    rest = result.kernels[len(shown) :]
    if rest:
        rows.append(_sum_row(Ready(f"({len(rest)} more)"), rest, result.total_ns))
    rows.append(_sum_row(Ready("total"), result.kernels, result.total_ns))
    columns = [*_COLUMNS, Column(_HEADS[result.by], text=True, code=result.by != "category")]
    if result.by == "category":
        columns.pop(-2)
        rows = [[*row[:-2], row[-1]] for row in rows]
    columns, rows = with_bars(columns, rows, [row.pct for row in shown], at=1, draw=screen.draw)
    whole = full_names and screen.width < WIDE
    return [
        listing(columns, rows) if whole else table(columns, rows, screen.width),
        Text(""),
        Text(coverage_line(summary)),
        *warning_lines(summary.warnings),
    ]


_COLUMNS = (
    *numbers("share", "ms", "calls", "mean µs", ("median", 1), ("min", 3), ("max", 2), ("std", 4)),
    Column("category", text=True),
)
_HEADS = {
    "call": "kernel and its helpers",
    "name": "kernel",
    "short": "kernel",
    "category": "category",
    "op": "operator",
}


def _row(row: KernelRow, full_names: bool) -> list[str]:
    return [
        pct(row.pct),
        number(row.total_ns / 1e6, 3),
        f"{row.calls:,}",
        micro(row.mean_ns),
        micro(row.median_ns),
        micro(row.min_ns),
        micro(row.max_ns),
        micro(row.std_ns),
        row.category,
        row.name if full_names else row.short_name,
    ]


def _sum_row(label: str, rows: list[KernelRow], total_ns: int) -> list[str]:
    time = sum(row.total_ns for row in rows)
    calls = sum(row.calls for row in rows)
    share = 100.0 * time / total_ns if total_ns else None
    return [pct(share), number(time / 1e6, 3), f"{calls:,}", "", "", "", "", "", "", label]
