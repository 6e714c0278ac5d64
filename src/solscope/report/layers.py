"""`solscope layers`: in the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from solscope.report.terminal import Column, share_known, table, to_text
from solscope.text import clean, shorten
from solscope.views.layers import Group, LayerTable, Row


class Line(NamedTuple):
    """One line of the table, whatever it is printed as."""

    group: str
    role: str
    kernel: str
    times: Sequence[float | None]


def render_layers(result: LayerTable, *, width: int, color: bool, kernels: bool) -> str:
    """The table in the terminal; `kernels` lists the kernels of a role under it."""
    # What group, role, difference, ratio and a first look at the kernels take.
    taken = 60 if len(result.profiles) != 2 else 78
    room = max(10, min(20, (width - taken) // max(1, len(result.profiles))))
    columns = [
        Column("group", text=True),
        Column("role", text=True),
        *(Column(f"{shorten(name, room)} µs") for name in result.profiles),
        *([Column("diff µs"), Column("ratio")] if len(result.profiles) == 2 else []),
        Column("kernel" if kernels else "kernels", text=True),
    ]
    rows = [
        (line.group, line.role, *_times(line.times), line.kernel)
        for line in lines(result, kernels=kernels)
    ]
    return to_text(
        [
            Text(_title(result)),
            Text(""),
            table(columns, rows, width),
            Text(""),
            Text(_coverage(result)),
        ],
        width,
        color,
    )


def markdown_layers(result: LayerTable) -> str:
    """The table as Markdown."""
    heads = ["group", "role", "kernel", *(f"{_cell(name)} µs" for name in result.profiles)]
    if len(result.profiles) == 2:
        heads += ["diff µs", "ratio"]
    out = [_title(result), "", "| " + " | ".join(heads) + " |"]
    out.append("|" + "|".join("---" if i < 3 else "--:" for i in range(len(heads))) + "|")
    for line in lines(result, kernels=True):
        cells = [line.group, line.role, _cell(shorten(line.kernel, 60)), *_times(line.times)]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join([*out, "", _coverage(result), ""])


def csv_layers(result: LayerTable) -> str:
    """The table as CSV: a row per role and per kernel, times in µs, nothing rounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["group", "role", "kernel", *(f"{name} us" for name in result.profiles)])
    for line in lines(result, kernels=True):
        writer.writerow(
            [
                line.group,
                line.role,
                line.kernel,
                *("" if t is None else repr(t) for t in line.times),
            ]
        )
    return out.getvalue()


def lines(result: LayerTable, *, kernels: bool) -> Iterator[Line]:
    """All lines: end to end above, then each kind of layer, then what lies outside."""
    yield Line("end to end", "", "one pass, first start to last end", result.end_to_end_us)
    count = [sum(k.layers[i] for k in result.layer_kinds) for i in range(len(result.profiles))]
    yield Line("layers", f"{_joined(count)} layers", "sum per pass", result.layers_us)
    for kind in result.layer_kinds:
        per = "step" if result.per == "step" else "layer"
        yield Line(kind.kind, f"{_joined(kind.layers)} layers", f"sum per {per}", kind.sum_us)
        for group in kind.groups:
            yield from _group_lines(group, kernels)
    for group in result.outside:
        if group.rows:
            yield from _group_lines(group, kernels)
    yield Line("unattributed", "", "", result.unattributed_us)
    yield Line("idle", "", "gaps inside a pass", result.idle_us)
    yield Line(
        "overlapped", "", "ran beside something else; counts against the sum", result.overlapped_us
    )


def _group_lines(group: Group, kernels: bool) -> Iterator[Line]:
    yield Line(f"  {group.group}", "sum", "", group.sum_us)
    for row in group.rows:
        yield from _row_lines(group.group, row, kernels)


def _row_lines(group: str, row: Row, kernels: bool) -> Iterator[Line]:
    if not kernels:
        names = dict.fromkeys(name for side in row.kernels for name in side)
        yield Line(f"  {group}", row.role, ", ".join(names), row.time_us)
        return
    yield Line(f"  {group}", row.role, "", row.time_us)
    size = len(row.time_us)
    for i, side in enumerate(row.kernel_times):
        for kernel in side:
            times = [kernel.time_us if at == i else None for at in range(size)]
            yield Line("", "", f"  {kernel.name}", times)


def _times(times: Sequence[float | None]) -> list[str]:
    cells = ["" if time is None else f"{time:,.2f}" for time in times]
    if len(times) != 2:
        return cells
    before, after = times
    if before is None or after is None:
        return [*cells, "", ""]
    ratio = f"{after / before:.2f}" if before else ""
    return [*cells, f"{after - before:+,.2f}", ratio]


def _title(result: LayerTable) -> str:
    phase = f"phase {result.phase}" if result.phase else "all phases (no phase known to all)"
    stat = {"mean": "mean", "median": "median (does not add up)", "p90": "p90 (does not add up)"}
    return f"{phase}, {stat[result.stat]} per {result.per}, over {_joined(result.passes)} passes"


def _coverage(result: LayerTable) -> str:
    parts = [
        f"{clean(name)}: placed {share_known(layer)}, with role {share_known(role)}"
        for name, layer, role in zip(
            result.profiles, result.coverage.layer_pct, result.coverage.role_pct, strict=True
        )
    ]
    return "coverage of the phase's GPU time: " + "; ".join(parts)


def _joined(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else " / ".join(map(str, values))


def _cell(text: str) -> str:
    return clean(text).replace("|", "\\|").replace("<", "&lt;")
