"""`solscope layers`: in the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from solscope.attribution.role_names import OTHER
from solscope.report.forms import Screen, form
from solscope.report.layout.labels import headings
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import (
    Ready,
    markdown_cell,
    markdown_code,
    markdown_table,
)
from solscope.report.layout.quantities import share_known
from solscope.report.layout.steps import every_phase
from solscope.report.layout.tables import BAR_WIDTH, Column, table, warning_lines, with_bars
from solscope.report.results.layers.runs import csv_run_layers, run_layers_parts, spreadsheet_text
from solscope.text import clean, shorten
from solscope.views.layers import LayerKind, LayerTable, Row

__all__ = [
    "csv_layers",
    "csv_run_layers",
    "layers_parts",
    "lines",
    "markdown_layers",
    "run_layers_parts",
]

ROOMY, NARROW_BAR = 100, 8
"""In a terminal narrower than this, bars have fewer cells."""


MOST_OVERLAPS = 8
"""Pairs of what overlaps that are listed; the others are one line."""


class Line(NamedTuple):
    """One line of the table, whatever it is printed as."""

    group: str
    role: str
    kernel: str
    times: Sequence[float | None]
    kind: str = ""
    """Kind of layer that the line belongs to; empty for lines about the whole pass."""
    level: int = 0
    """0 for totals, 1 for groups and roles, 2 for single kernels."""
    whole_us: Sequence[float | None] = ()
    """What the times are a share of: one layer of the kind, or the pass; empty for no share."""


@form("layers", LayerTable, markdown=lambda result, **_: markdown_layers(result))
def layers_parts(result: LayerTable, screen: Screen, *, kernels: bool) -> list[Printable]:
    """The table in the terminal; `kernels` lists the kernels of a role under it.

    More profiles than fit beside each other become several tables.
    """
    # What group, role, difference, ratio and a first look at the kernels take.
    taken = 60 if len(result.profiles) != 2 else 78
    room = max(10, min(20, (screen.width - taken) // max(1, len(result.profiles))))
    fit = max(1, (screen.width - 46) // (room + 5))
    all_lines = list(lines(result, kernels=kernels))
    parts: list[Printable] = [Text(_title(result))]
    for first in range(0, len(result.profiles), fit):
        shown = range(first, min(first + fit, len(result.profiles)))
        parts += [
            Text(""),
            _table(result, all_lines, shown, room, screen.width, kernels, screen.draw),
        ]
    if len(result.profiles) == 2 and fit == 1:
        parts.append(Text(f"columns left out at {screen.width}: diff µs, ratio", style="dim"))
    steps = [Text(line) for line in _steps(result)]
    parts += [Text(""), *steps, Text(_coverage(result)), *_warnings(result)]
    return parts


def _table(
    result: LayerTable,
    all_lines: Sequence[Line],
    shown: range,
    room: int,
    width: int,
    kernels: bool,
    draw: bool,
) -> Printable:
    pair = len(result.profiles) == len(shown) == 2
    columns = [
        Column("group", text=True),
        Column("role", text=True),
        *(Column(f"{name} µs") for name in headings([result.profiles[i] for i in shown], room)),
        # Of two profiles, the times are what is asked for, and what they are of.
        *([Column("diff µs", spare=int(kernels)), Column("ratio")] if pair else []),
        Column("per", text=True, spare=2 if pair else 0),
        Column(
            "kernel" if kernels else "kernels",
            text=True,
            gives=True,
            spare=int(pair and not kernels),
        ),
    ]
    rows, shares = [], []
    for line in all_lines:
        times = [line.times[i] for i in shown]
        if line.level == 2 and all(time is None for time in times):
            continue
        indent = "  " if line.level == 1 else ""
        group, role = (line.group, line.role) if line.level < 2 else ("", "")
        kernel = f"  {line.kernel}" if line.level == 2 else line.kernel
        rows.append(
            [f"{indent}{group}", role, *_times(times, pair=pair), _per(result, line), kernel]
        )
        shares.append(_share(line))
    # Bars of several profiles would look comparable although each has its own scale.
    alone = draw and len(result.profiles) == 1
    cells = BAR_WIDTH if width >= ROOMY else NARROW_BAR
    return table(*with_bars(columns, rows, shares, at=3, draw=alone, cells=cells), width)


def _per(result: LayerTable, line: Line) -> str:
    """What the times of a line are of; kernels have that of their role."""
    if line.level == 2:
        return ""
    if not line.kind:
        return "pass"
    # Calls do not add up to a layer, so a sum is never per call.
    return "layer" if result.per == "call" and line.role in ("", "sum") else result.per


def _share(line: Line) -> float | None:
    """The time of the first profile, in percent of what it is a part of."""
    time, whole = line.times[0], line.whole_us[0] if line.whole_us else None
    return 100 * time / whole if time and whole else None


def _warnings(result: LayerTable) -> list[Printable]:
    parts: list[Printable] = []
    for name, warnings in zip(result.profiles, result.warnings, strict=True):
        if warnings:
            parts += [Text(""), Text(clean(name), style="bold"), *warning_lines(warnings)]
    return parts


def markdown_layers(result: LayerTable) -> str:
    """The table as Markdown."""
    pair = len(result.profiles) == 2
    texts = [Column(name, text=True) for name in ("group", "role", "kernel")]
    times = [f"{name} µs" for name in result.profiles] + (["diff µs", "ratio"] if pair else [])
    rows = []
    for line in lines(result, kernels=True):
        group, role = (line.group, line.role) if line.level < 2 else ("", "")
        name = Ready(f"**{markdown_cell(group)}**") if line.level == 0 else group
        kernel = markdown_code(shorten(line.kernel, 60)) if line.level == 2 else line.kernel
        rows.append([name, role, kernel, *_times(line.times, pair=pair)])
    out = [_title(result), "", *markdown_table([*texts, *map(Column, times)], rows)]
    notes = [
        f"- {markdown_cell(name)}: `{warning.code}`: {markdown_cell(warning.message)}"
        for name, warnings in zip(result.profiles, result.warnings, strict=True)
        for warning in warnings
    ]
    steps = [piece for line in _steps(result) for piece in (markdown_cell(line), "")]
    return "\n".join([*out, "", *steps, _coverage(result), "", *notes, ""])


def csv_layers(result: LayerTable) -> str:
    """The table as CSV: one row per total, group, role and kernel, times in µs, nothing rounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ["kind", "group", "role", "kernel", *(f"{name} us" for name in result.profiles)]
    writer.writerow([spreadsheet_text(head) for head in heads])
    for line in lines(result, kernels=True):
        times = ("" if time is None else repr(time) for time in line.times)
        kernel = line.kernel if line.level == 2 else ""
        writer.writerow([line.kind, line.group, line.role, spreadsheet_text(kernel), *times])
    return out.getvalue()


def lines(result: LayerTable, *, kernels: bool) -> Iterator[Line]:
    """All lines: end to end first, then each kind of layer, then the rest."""
    for line in _pass_lines(result, kernels):
        yield line if line.kind else line._replace(whole_us=result.end_to_end_us)


def _pass_lines(result: LayerTable, kernels: bool) -> Iterator[Line]:
    yield Line("end to end", "", "one pass, first start to last end", result.end_to_end_us)
    count = [sum(k.layers[i] for k in result.layer_kinds) for i in range(len(result.profiles))]
    yield Line("layers", _several(count, "layer", "layers"), "sum per pass", result.layers_us)
    for kind in result.layer_kinds:
        # Times of single calls do not add up to a layer.
        whole = () if result.per == "call" else kind.sum_us
        for line in _kind_lines(result, kind, kernels):
            yield line._replace(kind=kind.kind, whole_us=whole)
    for group in result.outside:
        if group.rows:
            yield Line(group.group, "sum", "per pass", group.sum_us)
            for row in group.rows:
                yield from _row_lines(group.group, row, kernels)
    yield Line("unattributed", "", "", result.unattributed_us)
    yield Line("idle", "", "gaps inside a pass", result.idle_us)
    yield Line(
        "overlapped", "", "overlapped by other work; subtracted from the sum", result.overlapped_us
    )
    shown, rest = result.overlaps[:MOST_OVERLAPS], result.overlaps[MOST_OVERLAPS:]
    for pair in shown:
        yield Line("overlapped", pair.role, f"under {pair.under}", pair.time_us, level=1)
    if rest:
        sums = [sum(times) for times in zip(*(pair.time_us for pair in rest), strict=True)]
        yield Line("overlapped", OTHER, f"{len(rest)} other pairs", sums, level=1)


def _kind_lines(result: LayerTable, kind: LayerKind, kernels: bool) -> Iterator[Line]:
    per = "step" if result.per == "step" else "layer"
    head = _several(kind.layers, "layer", "layers")
    yield Line(kind.kind, head, f"sum per {per}", kind.sum_us)
    for group in kind.groups:
        yield Line(group.group, "sum", "", group.sum_us, level=1)
        for row in group.rows:
            yield from _row_lines(group.group, row, kernels)


def _row_lines(group: str, row: Row, kernels: bool) -> Iterator[Line]:
    if not kernels:
        names = dict.fromkeys(name for side in row.kernels for name in side)
        yield Line(group, row.role, ", ".join(names), row.time_us, level=1)
        return
    modules = dict.fromkeys(path for side in row.modules for path in side)
    yield Line(group, row.role, ", ".join(modules), row.time_us, level=1)
    sides = [{kernel.name: kernel.time_us for kernel in side} for side in row.kernel_times]
    # A kernel that several profiles have is one line, so that its times can be compared.
    for name in dict.fromkeys(name for side in sides for name in side):
        times = [side.get(name) for side in sides]
        yield Line(group, row.role, name, times, level=2)


def _times(times: Sequence[float | None], *, pair: bool) -> list[str]:
    cells = ["" if time is None else f"{time:,.2f}" for time in times]
    if not pair:
        return cells
    before, after = times
    if before is None or after is None:
        return [*cells, "", ""]
    ratio = f"{after / before:.2f}" if before else ""
    return [*cells, f"{after - before:+,.2f}", ratio]


def _title(result: LayerTable) -> str:
    phase = f"phase {result.phase}" if result.phase else "all phases (no phase known to all)"
    stat = {"mean": "mean", "median": "median (does not add up)", "p90": "p90 (does not add up)"}
    passes = _several(result.passes, "pass", "passes")
    return f"{phase}, {stat[result.stat]} per {result.per}, over {passes}"


def _steps(result: LayerTable) -> list[str]:
    """Which steps the passes are in; one line per profile, where they differ."""
    texts = [every_phase(basis) for basis in result.basis]
    if len(set(texts)) < 2:
        return [f"passes of {text}" for text in texts[:1]]
    return [
        f"{clean(name)}: passes of {text}"
        for name, text in zip(result.profiles, texts, strict=True)
    ]


def _coverage(result: LayerTable) -> str:
    parts = [
        f"{clean(name)}: placed {share_known(layer)}, with role {share_known(role)}, "
        f"sure {share_known(sure)}"
        for name, layer, role, sure in zip(
            result.profiles,
            result.coverage.layer_pct,
            result.coverage.role_pct,
            result.coverage.sure_pct,
            strict=True,
        )
    ]
    return "coverage of the phase's GPU time: " + "; ".join(parts)


def _several(values: Sequence[int], noun: str, plural: str) -> str:
    return f"{_joined(values)} {noun if set(values) == {1} else plural}"


def _joined(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else " / ".join(map(str, values))
