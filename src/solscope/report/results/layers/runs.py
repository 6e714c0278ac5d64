"""`solscope layers RUN` in the terminal: mean and spread over ranks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from solscope.report.forms import Screen, form
from solscope.report.layout.labels import headings
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted, number
from solscope.report.layout.tables import Column, numbers, table, warning_lines
from solscope.run import listed
from solscope.text import clean
from solscope.views.run_layers import RunLayers
from solscope.views.run_roles import Spread


@form("layers_run", RunLayers)
def run_layers_parts(result: RunLayers, screen: Screen) -> list[Printable]:
    """One table per run where there is one; several runs side by side, by their means."""
    several = len(result.runs) > 1
    columns = [Column("group", text=True), Column("role", text=True)]
    if several:
        columns += [Column(f"{name} µs") for name in headings(result.runs, 18)]
    else:
        columns += numbers("mean µs", "least", "most", ("wait µs", 1))
        columns += [Column("least on", spare=3), Column("most on", spare=2)]
    rows = [[f"{group}", role, *cells] for group, role, cells in _lines(result, several)]
    warnings = [warning for each in result.warnings for warning in each]
    return [
        Text(_title(result)),
        Text(""),
        table(columns, rows, screen.width),
        *warning_lines(warnings),
    ]


_OF_A_RUN = ("mean us", "least us", "least on", "most us", "most on", "wait us")


def csv_run_layers(result: RunLayers) -> str:
    """The table as CSV: one row per total and role, all figures of every run, nothing rounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = [f"{name} {what}" for name in result.runs for what in _OF_A_RUN]
    writer.writerow(["kind", "group", "role", *map(spreadsheet_text, heads)])
    for name in ("step", "overlapped", "held", "host"):
        values = getattr(result, f"{name}_us")
        writer.writerow([name, "", "per step", *_figures(values, [None] * len(values))])
    for row in result.rows:
        place = [row.layer_kind or "outside of layers", row.group or "", row.role]
        figures = _figures(row.time_us, row.wait_us)
        writer.writerow([*map(spreadsheet_text, place), *figures])
    return out.getvalue()


def _figures(values: Sequence[Spread | None], waits: Sequence[Spread | None]) -> Iterator[str]:
    """`_OF_A_RUN` of each run; empty where it has none."""
    for value, wait in zip(values, waits, strict=True):
        waited = "" if wait is None else repr(wait.mean)
        if value is None:
            yield from [""] * len(_OF_A_RUN)
            continue
        yield from (repr(value.mean), repr(value.least), str(value.least_rank))
        yield from (repr(value.most), str(value.most_rank), waited)


def spreadsheet_text(text: str) -> str:
    """Text that neither steers a terminal nor runs as a formula in a spreadsheet."""
    return f"'{clean(text)}" if text[:1] in ("=", "+", "-", "@") else clean(text)


def _title(result: RunLayers) -> str:
    names = "; ".join(
        f"{clean(name)}: ranks {listed(ranks)}, {counted(steps, 'step')}"
        for name, ranks, steps in zip(result.runs, result.ranks, result.steps, strict=True)
    )
    phase = f"phase {result.phase}, " if result.phase else ""
    return f"{phase}mean over ranks per {result.per}; {names}"


def _lines(result: RunLayers, several: bool) -> Iterator[tuple[str, str, list[str]]]:
    for name in ("step", "overlapped", "held", "host"):
        values = getattr(result, f"{name}_us")
        yield name, "per step", _cells(values, None, several)
    for kind in dict.fromkeys(row.layer_kind for row in result.rows):
        yield *_kind(result, kind), _blank(result, several)
        for row in result.rows:
            if row.layer_kind == kind:
                waits = row.wait_us if row.communication else None
                cells = _cells(row.time_us, waits, several)
                yield f"  {row.group or '-'}", clean(row.role), cells


def _kind(result: RunLayers, kind: str | None) -> tuple[str, str]:
    if kind is None:
        return "outside of layers", "per step"
    counts = ", ".join(number(count, 0) for count in result.layers.get(kind, []))
    return clean(kind), "1 layer" if counts == "1" else f"{counts} layers"


def _blank(result: RunLayers, several: bool) -> list[str]:
    return [""] * (len(result.runs) if several else 6)


def _cells(
    values: Sequence[Spread | None], waits: Sequence[Spread | None] | None, several: bool
) -> list[str]:
    if several:
        return [number(None if value is None else value.mean) for value in values]
    value = values[0]
    wait = waits[0] if waits else None
    if value is None:
        return ["-"] * 6
    alike = value.least == value.most
    return [
        number(value.mean),
        number(value.least),
        number(value.most),
        number(None if wait is None else wait.mean) if waits else "",
        "-" if alike else f"rank {value.least_rank}",
        "-" if alike else f"rank {value.most_rank}",
    ]
