"""`solscope show --slowest`: the steps that lose most time."""

from __future__ import annotations

from solscope.report.forms import Screen, form_of_each
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number, pct
from solscope.report.layout.tables import Column, numbers, table
from solscope.text import clean
from solscope.views.step_rows import StepRow, StepTable


@form_of_each("show_slowest", StepTable)
def slowest_parts(steps: StepTable, screen: Screen, *, top: int) -> list[Printable]:
    """The slowest steps, each with what is unusual about it."""
    head = f"{clean(steps.profile)}: {_slow(steps)}; a step lasts to the start of the next"
    columns = [
        Column("step"),
        Column("phase", text=True, spare=2),
        *numbers(("at ms", 4), "ms", ("median ms", 1), "more ms", ("kernels", 3)),
        Column("unusual, ms", text=True),
    ]
    rows = [_cells(row) for row in steps.steps[:top]]
    parts: list[Printable] = [
        Text(head, style="bold"),
        Text(""),
        table(columns, rows, screen.width),
    ]
    if steps.slow:
        parts.append(Text("* slow: longer than usual by more than 10 % and five times the spread"))
    if rows:
        first = steps.steps[0].step
        command = f"solscope export {clean(steps.profile)} --step {first} --perfetto step.json.gz"
        parts += [Text(""), Text(f"next: {command}")]
    return parts


def _slow(steps: StepTable) -> str:
    if not steps.slow:
        return f"none of {steps.count:,} steps is slow"
    verbs = ("is slow; it loses", "are slow; they lose")[steps.slow > 1]
    lost = f"{pct(steps.slow_pct)} of the time of all steps"
    return f"{steps.slow:,} of {steps.count:,} steps {verbs} {lost}"


def _cells(row: StepRow) -> list[str]:
    return [
        f"{row.step}{' *' if row.slow else ''}",
        row.phase or "-",
        number(row.start_ms),
        number(row.wall_ms, 3),
        number(row.typical_ms, 3),
        "-" if row.excess_ms is None else f"{row.excess_ms:+,.3f}",
        f"{row.kernels:,}",
        _unusual(row),
    ]


def _unusual(row: StepRow) -> str:
    if row.typical_ms is None:
        return "too few to compare"
    if not row.unusual:
        return "-"
    excesses = [f"{excess.part} {excess.excess_ms:+,.2f}" for excess in row.unusual]
    if row.kernels_more:
        excesses.append(f"{row.kernels_more:+,} kernels")
    return ", ".join(excesses)
