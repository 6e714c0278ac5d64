"""`solscope gate` in the terminal."""

from __future__ import annotations

from solscope.compare.gate import Check, GateResult
from solscope.report.forms import Screen, form
from solscope.report.layout.labels import short_labels
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number
from solscope.report.layout.steps import steps_counted
from solscope.report.layout.tables import Column, numbers, table, warning_lines
from solscope.text import clean

_WORDS = {"ok": "ok", "worse": "worse", "cannot_tell": "cannot tell"}
_STYLES = {"ok": "bold green", "worse": "bold red", "cannot_tell": "bold yellow"}
_COLUMNS = (
    Column("phase", text=True, gives=True),
    Column("what", text=True),
    *numbers(("n", 3), ("baseline ms", 2), ("candidate ms", 2), "ratio", "95 % interval"),
    *numbers(("limit", 4), "verdict"),
)
_MEASURED = {
    "start_to_start": "start of a step to the start of the next",
    "extent": "first start to last end of a step on the GPU",
}


@form("gate", GateResult)
def gate_parts(result: GateResult, screen: Screen) -> list[Printable]:
    """The verdict, what led to it, and what it does not say."""
    before, after = short_labels([result.baseline, result.candidate])
    parts = [
        Text(f"{clean(after)} compared with {clean(before)}, {_limits(result)}"),
        Text.assemble(
            (_WORDS[result.verdict], _STYLES[result.verdict]), f": {clean(result.reason)}"
        ),
    ]
    if result.checks:
        measured = dict.fromkeys(c.measured for c in result.checks if c.what == "step")
        rows = [_row(check) for check in result.checks]
        parts += [
            Text(""),
            table(_COLUMNS, rows, screen.width),  # type: ignore[list-item]
            Text(""),
            *(Text(f"step time: {_MEASURED[name]}") for name in measured),
            *_bases(result),
            Text(
                "the interval covers the steps of these recordings; one run may differ from the "
                "next by more"
            ),
        ]
    return [*parts, *warning_lines(result.warnings)]


def _bases(result: GateResult) -> list[Text]:
    """Which steps were tested on each side, where some were left out."""
    sides: list[dict[str, None]] = [{}, {}]
    for check in result.checks:
        for texts, basis in zip(sides, check.basis, strict=False):
            texts[steps_counted(basis)] = None
    return [
        Text(f"{side}: {'; '.join(texts)}")
        for side, texts in zip(("baseline", "candidate"), sides, strict=True)
        if texts
    ]


def _limits(result: GateResult) -> str:
    strict = ", strict" if result.strict else ""
    return f"limit: {result.max_regression_pct:g} % slower{strict}"


def _row(check: Check) -> list[str]:
    tested = check.low is not None
    return [
        check.phase or "not known",
        check.what,
        "/".join(map(str, check.n)),
        number(check.baseline_ms, 3),
        number(check.candidate_ms, 3),
        number(check.ratio, 3),
        f"[{number(check.low, 3)}, {number(check.high, 3)}]" if tested else "not tested",
        f"{check.limit_pct:g} %",
        _WORDS[check.verdict],
    ]
