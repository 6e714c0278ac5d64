"""`solscope compare --kernels`: which kernels got slower, and what replaced what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from solscope.compare.kernels import KernelChange, KernelComparison, KernelUse, PhaseKernels
from solscope.names import short_name
from solscope.report.forms import Screen, form, one_below_the_other
from solscope.report.layout.labels import short_labels
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted, mean_count, number
from solscope.report.layout.steps import steps_counted
from solscope.report.layout.tables import Column, heading, numbers, table, warning_lines
from solscope.text import clean

_COLUMNS = (
    *numbers("diff ms", ("95 % interval", 4), ("before ms", 3), ("after ms", 2), ("calls", 5)),
    Column("what", text=True),
    Column("role", text=True, spare=1),
    Column("kernel", text=True, gives=True),
)
MIN_SHARE = 0.001
"""Smaller differences, as a share of the step's GPU time, are summed up."""
NAMED = 2
"""Kernels of one side that a row names; the others are counted."""


class KernelComparisons(TypedDict):
    """Each profile compared with the first one."""

    comparisons: list[KernelComparison]


@form("compare_kernels", KernelComparisons)
def kernel_parts(
    result: KernelComparisons, screen: Screen, *, top: int, full_names: bool
) -> list[Printable]:
    """For each profile and phase, the largest differences."""
    return one_below_the_other(
        [
            *_profiles(comparison),
            *_tables(comparison, screen.width, top, full_names),
            *warning_lines(comparison.warnings),
        ]
        for comparison in result["comparisons"]
    )


def _profiles(comparison: KernelComparison) -> list[Printable]:
    before, after = short_labels([comparison.before, comparison.after])
    return [Text(f"{clean(after)} compared with {clean(before)}")]


def _tables(
    comparison: KernelComparison, width: int, top: int, full_names: bool
) -> Iterator[Printable]:
    for phase in comparison.phases:
        yield Text("")
        yield heading(_title(phase))
        least = MIN_SHARE * max(phase.before_ms, phase.after_ms)
        noise = [row for row in phase.rows if row.differs is False]
        real = [row for row in phase.rows if row.differs is not False]
        listed = [row for row in real if abs(row.diff_ms) >= least][:top]
        left = (("smaller differences", real[len(listed) :]), ("within the noise", noise))
        rows = [cells for row in listed for cells in _rows(row, full_names)]
        rows += [_sum(what, rest) for what, rest in left if rest]
        if not rows:
            yield Text("neither profile has kernels, copies or fills here")
            continue
        if not listed:
            yield Text(_nothing(phase))
        yield table(_COLUMNS, rows, width)
        shares = " and ".join(f"{share:.1f} %" for share in phase.matched_pct)
        yield Text(f"matched: {shares} of the GPU time before and after")


def _nothing(phase: PhaseKernels) -> str:
    least = f"{100 * MIN_SHARE:g} % of the GPU time"
    if any(row.differs is None for row in phase.rows):
        return f"no kernel differs by {least}; noise was not tested, for lack of steps"
    return f"no kernel differs by more than the noise and {least}"


def _title(phase: PhaseKernels) -> str:
    times = f"{number(phase.before_ms, 3)} -> {number(phase.after_ms, 3)} ms ({phase.diff_ms:+.3f})"
    if phase.per == "profile":
        return f"totals of whole profiles: GPU time {times}"
    per = "step" if phase.devices == [1, 1] else "step and GPU"
    return f"{phase.phase or 'phase not known'}: GPU time per {per} {times}, over {_steps(phase)}"


def _steps(phase: PhaseKernels) -> str:
    before, after = (steps_counted(side, named=False) for side in phase.basis)
    return f"{before} in both" if before == after else f"{before} and {after}"


def _rows(row: KernelChange, full_names: bool) -> Iterator[list[str]]:
    """One line, and a second one for the names after if they are others."""
    names = [_names(side, full_names) for side in (row.before, row.after) if side]
    yield [
        f"{row.diff_ms:+.3f}",
        "not tested" if row.low_ms is None else f"[{row.low_ms:+.3f}, {row.high_ms:+.3f}]",
        number(row.before_ms, 3) if row.before else "-",
        number(row.after_ms, 3) if row.after else "-",
        _calls(row),
        row.relation,
        " ".join(text for text in (row.group, row.role) if text) or row.category,
        names[0],
    ]
    if row.relation not in ("same", "new", "gone"):
        yield [*[""] * (len(_COLUMNS) - 1), f"-> {names[1]}"]


def _calls(row: KernelChange) -> str:
    """Calls per step: one number if both sides agree."""
    sides = [sum(use.calls_per_step for use in side) for side in (row.before, row.after) if side]
    return " -> ".join(dict.fromkeys(mean_count(calls) for calls in sides))


def _names(uses: Sequence[KernelUse], full_names: bool) -> str:
    heaviest = sorted(uses, key=lambda use: -use.total_ns)
    names = dict.fromkeys(use.name if full_names else short_name(use.name) for use in heaviest)
    more = len(names) - NAMED
    return " + ".join(list(names)[:NAMED]) + (f" + {more} more" if more > 0 else "")


def _sum(what: str, rows: Sequence[KernelChange]) -> list[str]:
    """What the table does not list, so that its differences add up."""
    diff = sum(row.diff_ms for row in rows)
    before, after = sum(row.before_ms for row in rows), sum(row.after_ms for row in rows)
    text = f"{counted(len(rows), 'row')}: {what}"
    return [f"{diff:+.3f}", "", number(before, 3), number(after, 3), "", "", "", text]
