"""`solscope diagnose` of one recording: in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from solscope.diagnose.single import SingleDiagnosis
from solscope.report.forms import Screen, form
from solscope.report.layout.blocks import Block, block_text
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import Ready, markdown_cell
from solscope.report.layout.quantities import counted, number
from solscope.report.layout.sparkline import sparkline, top_of
from solscope.report.layout.tables import Column, heading, numbers
from solscope.report.results.diagnose.diagnosis import (
    MISSING,
    MOST_MISSING,
    STEP_LINE,
    TitledLines,
    cause_lines,
    closing_parts,
    list_line,
    markdown_page,
    share_of,
    signed,
    steps_line,
)
from solscope.text import clean, percent
from solscope.views.steps import LEAST_STEPS

_STYLES = {"steady": "bold green", "cannot_tell": "bold yellow"}
_STEPS = (Column("steps"), Column("in order", text=True, style="cyan"))
_COMPONENTS = (
    *numbers("usual ms", "slow ms", "more", "share"),
    Column("phase", text=True, spare=1),
    Column("component", text=True, code=True),
)
MOST_NUMBERS = 12
"""Numbers of slow steps that are printed."""


@form(
    "diagnose_single",
    SingleDiagnosis,
    markdown=lambda result, top, **_: markdown_single(result, top=top),
)
def single_parts(
    result: SingleDiagnosis, screen: Screen, *, top: int, drawn: list[float] | None = None
) -> list[Printable]:
    """Text for the terminal; `drawn` are the times of all whole steps, ms."""
    style = _STYLES.get(result.verdict, "bold red")
    parts: list[Printable] = [
        Text(clean(result.run.path)),
        Text(clean(result.sentence), style=style),
        Text(""),
        heading("steps"),
        *(list_line(f"  {line}") for line in _facts(result)),
    ]
    if drawn:
        longest = top_of(drawn)
        title = f"whole steps in order, from 0 to {longest:,.2f} ms"
        row = [f"{len(drawn):,}", sparkline(drawn, STEP_LINE, top=longest)]
        parts += block_text(Block(title, _STEPS, [row]), screen.width)
    for block in _blocks(result, top):
        parts += block_text(block, screen.width)
    return [*parts, *closing_parts(_lists(result), result.warnings)]


def markdown_single(result: SingleDiagnosis, *, top: int) -> str:
    """The same as Markdown."""
    head = [f"# {markdown_cell(result.run.path)}", ""]
    return markdown_page(head, result, _facts(result), _blocks(result, top), _lists(result))


def _facts(result: SingleDiagnosis) -> Iterator[str]:
    run = result.run
    yield steps_line(run, "looked at")
    if run.mean_ms is not None:
        rare = f", p99 {number(run.p99_ms, 3)} ms" if run.steps >= LEAST_STEPS[0.99] else ""
        yield (
            f"mean {number(run.mean_ms, 3)} ms, p50 {number(run.p50_ms, 3)} ms{rare}, to the start "
            "of the next step, all phases"
        )
    for point in result.change_points:
        yield (
            f"change at step {point.step}: ×{point.ratio:.2f}, {point.before_ms:.2f} → "
            f"{point.after_ms:.2f} ms (p = {point.p:.3f})"
        )
    if result.drift is not None:
        drift = result.drift
        yield f"drift: ×{drift.ratio:.2f} [{drift.low:.2f}, {drift.high:.2f}] from start to end"
    slow = result.outliers
    if slow is not None:
        numbers = ", ".join(map(str, slow.numbers[:MOST_NUMBERS]))
        more = ", ..." if slow.steps > MOST_NUMBERS else ""
        every = "" if slow.every is None else f", every {slow.every} steps (p = {slow.p:.3f})"
        yield (
            f"slow: {slow.steps} of {counted(slow.of_steps, 'step')}{every}, "
            f"{percent(slow.share_of_time_pct)} of the time: step {numbers}{more}"
        )


def _blocks(result: SingleDiagnosis, top: int) -> Iterator[Block]:
    if not result.components or result.delta_ms is None:
        return
    usual, slow = result.compared
    shown = [c for c in result.components if abs(c.delta_ms) >= 5e-4][:top]
    rest = [c for c in result.components if c not in shown]
    rows = [
        [
            number(c.normal_ms, 3),
            number(c.abnormal_ms, 3),
            signed(c.delta_ms),
            share_of(c.share_of_delta_pct),
            c.phase or "-",
            c.component,
        ]
        for c in shown
    ]
    if rest:
        sums = [sum(getattr(c, f) for c in rest) for f in ("normal_ms", "abnormal_ms", "delta_ms")]
        others = Ready(f"({counted(len(rest), 'other')})")
        rows.append([number(sums[0], 3), number(sums[1], 3), signed(sums[2]), "", "", others])
    whole = [sum(getattr(c, f) for c in result.components) for f in ("normal_ms", "abnormal_ms")]
    total = [number(whole[0], 3), number(whole[1], 3), signed(result.delta_ms), "", ""]
    rows.append([*total, Ready("step")])
    against = f"{counted(slow, 'slow step')} against {usual} others"
    if result.verdict == "cannot_tell":
        against = (
            f"the slower half, {counted(slow, 'step')}, against the {usual} of the faster half"
        )
    title = f"{against}, ms per step (adds up exactly)"
    yield Block(title, _COMPONENTS, rows)


def _lists(result: SingleDiagnosis) -> Iterator[TitledLines]:
    if result.causes:
        yield "causes", [line for cause in result.causes for line in cause_lines(cause)]
    if result.missing_evidence:
        yield MISSING, [f"  {text}" for text in result.missing_evidence[:MOST_MISSING]]
    if result.next_step:
        yield "next", [f"  {result.next_step}"]
