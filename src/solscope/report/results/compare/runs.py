"""`solscope compare RUN RUN2` in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.compare.runs import Difference, Exchange, PhaseOfRuns, RunComparison
from solscope.report.forms import Screen, form
from solscope.report.layout.labels import headings
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number
from solscope.report.layout.tables import Column, heading, numbers, table, warning_lines
from solscope.text import clean

_SIGNS = {"hidden": "  hidden by computing", "step": "= step"}


@form("compare_runs", RunComparison)
def compare_runs_parts(result: RunComparison, screen: Screen, *, top: int) -> list[Printable]:
    """Both runs, the parts of a step, roles, and the communication apart."""
    parts: list[Printable] = []
    for side in result.runs:
        size = f" of {side.world_size}" if side.world_size not in (None, side.ranks) else ""
        parts.append(Text(clean(f"{side.name}: {side.ranks} ranks{size}. {side.verdict}")))
    names = headings([side.name for side in result.runs], 20)
    for phase in result.phases:
        parts += _phase(phase, names, screen.width, top)
    return [*parts, *warning_lines(result.warnings)]


def _phase(phase: PhaseOfRuns, names: Sequence[str], width: int, top: int) -> list[Printable]:
    title = f"{phase.phase or 'phase not known'}, per step, mean over ranks"
    count = " and ".join(str(n) for n in phase.steps)
    parts: list[Printable] = [
        Text(""),
        heading(f"{title}: parts of {count} steps, ms"),
        table(_columns(names), [_part(row) for row in phase.parts], width),
        Text(""),
        heading(f"{title}: computing by role, largest differences, ms"),
        table(_columns(names), [_row(row) for row in _first(phase.roles, top)], width),
    ]
    if phase.communication:
        parts += [
            Text(""),
            heading(f"{title}: communication, ms"),
            _exchanges(phase.communication[:top], width),
        ]
    return parts


def _columns(names: Sequence[str]) -> list[Column]:
    return [
        Column("group", text=True, gives=True),
        Column("part", text=True),
        *numbers(*names, "diff"),
        *numbers("ratio"),
    ]


def _part(row: Difference) -> list[str]:
    name = _SIGNS.get(row.name, f"+ {row.name}")
    return ["", name, *_figures(row)]


def _row(row: Difference) -> list[str]:
    return [row.group or "-", clean(row.name), *_figures(row)]


def _figures(row: Difference) -> list[str]:
    return [
        number(row.before_ms, 3),
        number(row.after_ms, 3),
        f"{row.diff_ms:+,.3f}",
        number(row.ratio),
    ]


def _first(rows: Sequence[Difference], top: int) -> list[Difference]:
    """The first rows, and what the others come to."""
    rest = rows[top:]
    if not rest:
        return list(rows)
    before, after = (
        sum(value or 0.0 for value in values)
        for values in ([r.before_ms for r in rest], [r.after_ms for r in rest])
    )
    others = Difference(
        None,
        f"({len(rest)} others)",
        before,
        after,
        after - before,
        after / before if before else None,
    )
    return [*rows[:top], others]


_EXCHANGES = (
    Column("group", text=True, gives=True),
    Column("role: kind", text=True),
    *numbers(("calls", 1), ("bytes", 2), "transfer", "waiting", "diff"),
)


def _exchanges(rows: Sequence[Exchange], width: int) -> Printable:
    return table(
        _EXCHANGES,
        [
            [
                row.group or "-",
                clean(row.role),
                _both(row.calls, 1),
                _both(row.bytes, 0),
                _both(row.transfer_ms, 3),
                _both(row.wait_ms, 3),
                f"{row.diff_ms:+,.3f}",
            ]
            for row in rows
        ],
        width,
    )


def _both(values: Sequence[float | None], digits: int) -> str:
    return " → ".join(number(value, digits) for value in values)
