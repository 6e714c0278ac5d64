"""`solscope suite show`, `shapes` of any suite and `verify`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, TypedDict

from solscope.bench.verify import Verification
from solscope.operators.task import Tolerance
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.report.results.suite.published import micro_text, percent_text
from solscope.suite.show import InputRow, OperatorCard, OutputRow
from solscope.suite.tables import ListedRow
from solscope.text import clean

_MOST_SHAPES = 12
"""Shapes that a card lists."""
_MOST_FAILURES = 20
"""Failures that are printed."""


@form("suite_show", OperatorCard)
def card_parts(card: OperatorCard, screen: Screen, *, suite: str) -> list[Printable]:
    """One operator of `suite`, as the user named it: math, inputs, outputs, tolerances, shapes."""
    share = percent_text(card.importance_norm_pct)
    parts: list[Printable] = [
        heading(f"{card.operator}: {card.title}"),
        Text(clean(f"suite {card.suite}, {card.dtype}, category {card.category}, {share} of it")),
        Text(""),
        Text(card.about),
        Text(""),
        Text(f"axes: {', '.join(card.axes)}"),
    ]
    if card.optional:
        parts.append(Text(f"optional: {', '.join(card.optional)}"))
    if card.vary:
        parts.append(Text(f"any size: {', '.join(card.vary)}"))
    return [*parts, *_io(card, screen.width), *_shapes(card, suite, screen.width)]


def _io(card: OperatorCard, width: int) -> list[Printable]:
    if card.note:
        return [Text(""), Text(clean(card.note))]
    inputs = table(
        (
            Column("dtype", text=True),
            Column("shape or value", text=True),
            Column("input", text=True),
        ),
        [
            (row.dtype, _value(row), f"{row.name} (weight)" if row.weight else row.name)
            for row in card.inputs
        ],
        width,
    )
    outputs = table(
        (Column("dtype", text=True), Column("judged", text=True), Column("output", text=True)),
        [(_dtype(card, row), tolerance_text(row.tolerance), _name(row)) for row in card.outputs],
        width,
    )
    why = [
        Text(clean(f"  {row.name}: {row.tolerance.why}"))
        for row in card.outputs
        if row.tolerance.why
    ]
    rules = [Text(clean(f"  {row.name}: {row.rule}")) for row in card.outputs if row.rule]
    parts: list[Printable] = [
        Text(""),
        heading(f"inputs at {axes_text(card.example)}"),
        inputs,
        Text(""),
        heading("outputs"),
        outputs,
    ]
    if why:
        parts += [Text(""), heading("why these tolerances"), *why]
    if rules:
        parts += [Text(""), heading("operator-specific rules"), *rules]
    return parts


def _shapes(card: OperatorCard, suite: str, width: int) -> list[Printable]:
    ordered = sorted(card.shapes, key=lambda shape: -shape.weight)
    shown = table(
        (Column("weight"), Column("id", text=True, spare=1), Column("axes", text=True)),
        [
            (percent_text(100 * shape.weight), shape.id, axes_text(shape.axes))
            for shape in ordered[:_MOST_SHAPES]
        ],
        width,
    )
    count = counted(len(card.shapes), "shape")
    title = f"{count}, heaviest first" if len(card.shapes) > 1 else count
    parts: list[Printable] = [Text(""), heading(title), shown]
    more = len(card.shapes) - _MOST_SHAPES
    if more > 0:
        option = "" if suite == "atrex" else f" --suite {shlex.quote(suite)}"
        parts.append(Text(clean(f"{more} more: solscope suite shapes {card.operator}{option}")))
    return parts


class ListedShapes(TypedDict):
    """The shapes of an operator of any suite."""

    shapes: list[ListedRow]


@form("suite_shapes_listed", ListedShapes)
def listed_parts(result: ListedShapes, screen: Screen, *, operator: str) -> list[Printable]:
    """Every shape of one operator of any suite with our bound."""
    rows = result["shapes"]
    names = list(rows[0].corrected_sol_us)
    columns = (
        Column("weight"),
        *(Column(f"SOL {hw} µs", spare=index) for index, hw in enumerate(names)),
        Column("id", text=True, spare=len(names) + 1),
        Column("shape", text=True),
    )
    cells = [
        (
            percent_text(row.weight_pct),
            *(micro_text(row.corrected_sol_us[hw]) for hw in names),
            row.id,
            row.description or axes_text(row.axes),
        )
        for row in rows
    ]
    note = f"{operator}: {counted(len(rows), 'shape')}; SOL: corrected cost, no launch floor"
    shown = table(columns, cells, screen.width)
    return [shown, Text(""), Text(clean(note))]


class SuiteVerification(TypedDict):
    """The checks of `solscope suite verify`."""

    operators: list[Verification]


@form("suite_verify", SuiteVerification)
def verified_parts(result: SuiteVerification, screen: Screen) -> list[Printable]:
    """What was checked per operator, and what does not hold."""
    verified = result["operators"]
    columns = (
        *numbers("shapes", "checks", "failed", "eager error"),
        Column("operator", text=True),
    )
    cells = [
        (
            str(operator.shapes),
            str(operator.checks),
            str(len(operator.failures)) if operator.failures else "-",
            f"{operator.max_error:.2g}",
            operator.operator,
        )
        for operator in verified
    ]
    parts: list[Printable] = [table(columns, cells, screen.width), Text("")]
    failures = [
        f"{operator.operator}: {text}" for operator in verified for text in operator.failures
    ]
    parts += [Text(clean(text), style="red") for text in failures[:_MOST_FAILURES]]
    if len(failures) > _MOST_FAILURES:
        parts.append(Text(f"and {len(failures) - _MOST_FAILURES} more"))
    checks = sum(operator.checks for operator in verified)
    bad = sum(bool(operator.failures) for operator in verified)
    verdict = f"{counted(bad, 'operator')} with failures" if bad else "all hold"
    parts.append(Text(f"{counted(len(verified), 'operator')}, {checks:,} checks: {verdict}"))
    return parts


def axes_text(axes: Mapping[str, Any]) -> str:
    """`tokens=24 hidden=1280`."""
    return " ".join(f"{name}={value}" for name, value in axes.items())


def tolerance_text(tolerance: Tolerance) -> str:
    """`close: rtol 0.008, RMS 0.0027`."""
    if tolerance.kind == "exact":
        return "exact"
    matched = "" if tolerance.matched == 1 else f", {100 * tolerance.matched:.6g} % of values"
    if tolerance.kind == "codes":
        return f"codes: at most one off, {100 * tolerance.matched:.6g} % equal"
    limits = [
        f"{name} {value:.2g}"
        for name, value in (
            ("atol", tolerance.atol),
            ("rtol", tolerance.rtol),
            ("RMS", tolerance.rms),
            ("row RMS", tolerance.row_rms),
        )
        if value
    ]
    return f"close: {', '.join(limits)}{matched}"


def _value(row: InputRow) -> str:
    return str(row.shape) if row.shape is not None else str(row.value)


def _dtype(card: OperatorCard, row: OutputRow) -> str:
    return f"as {row.dtype}" if row.dtype in {tensor.name for tensor in card.inputs} else row.dtype


def _name(row: OutputRow) -> str:
    return f"{row.name} (in place)" if row.mutated else row.name
