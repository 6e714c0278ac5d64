"""`solscope suite`: in the terminal and as Markdown, with the digits of the suite's public page."""

from __future__ import annotations

from typing import TypedDict

from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, numbers, table
from solscope.suite.published import half_up, upper_median
from solscope.suite.tables import MedianRow, RooflineRow, ShapeRow, SuiteRow
from solscope.text import percent

_THOUSAND = 1000


def micro_text(value_us: float | None, digits: int = 2) -> str:
    """Microseconds without their unit, `<0.01` for what rounds to 0; `-` for what does not exist.

    One unit for a column, so that its times can be compared; the public page goes over to
    milliseconds at 1000, with as many digits.
    """
    if value_us is None:
        return "-"
    rounded = half_up(value_us, digits)
    return f"{rounded:,}" if rounded or not value_us else f"<{half_up(10**-digits, digits)}"


def intensity_text(value: float) -> str:
    """FLOP per byte with one decimal; thousands as `k`."""
    if value >= _THOUSAND:
        return f"{half_up(value / _THOUSAND, 1)}k"
    return f"{half_up(value, 1)}"


def percent_text(value: float) -> str:
    """A percentage with one decimal, rounded as the public page rounds."""
    return percent(float(half_up(value, 1)))


class SuiteList(TypedDict):
    """The operators of a suite."""

    operators: list[SuiteRow]


@form("suite_list", SuiteList)
def list_parts(result: SuiteList, screen: Screen) -> list[Printable]:
    """The operators with their importance."""
    rows = result["operators"]
    columns = (
        Column("id", text=True, spare=1),
        Column("dtype", text=True),
        *numbers("shapes", "importance", "of 100"),
        Column("operator", text=True),
    )
    cells = [
        (
            row.id,
            row.dtype,
            str(row.shapes),
            percent_text(row.importance_pct),
            percent_text(row.importance_norm_pct),
            row.operator,
        )
        for row in rows
    ]
    shapes = sum(row.shapes for row in rows)
    total = percent_text(sum(row.importance_pct for row in rows))
    note = (
        f"{len(rows)} operators, {shapes} shapes; importance adds up to {total}; "
        "the second column scales it to 100 %"
    )
    return [table(columns, cells, screen.width), Text(""), Text(note)]


class SuiteRoofline(TypedDict):
    """The bounds of all operators."""

    operators: list[RooflineRow]


@form("suite_roofline", SuiteRoofline)
def roofline_parts(result: SuiteRoofline, screen: Screen) -> list[Printable]:
    """Regime, intensity and times of the middle shape of each operator."""
    rows = result["operators"]
    names = list(rows[0].sol_us)
    columns = (
        Column("operator", text=True, gives=True),
        Column("regime", text=True),
        Column("AI"),
        *(Column(f"SOL {name} µs", spare=index) for index, name in enumerate(names)),
        Column("production µs"),
    )
    cells = [
        (
            row.operator,
            row.regime,
            intensity_text(row.intensity),
            *(micro_text(row.sol_us[name]) for name in names),
            micro_text(row.prod_us, 0),
        )
        for row in rows
    ]
    notes = (
        "C compute (median AI > 10 FLOP/byte), M memory, I index; AI and times of the shape with "
        "the middle id",
        "SOL: published formula, not always a lower bound; production: deployed kernel on XPU-A",
    )
    shown = table(columns, cells, screen.width)
    return [shown, Text(""), *map(Text, notes)]


class SuiteMedians(TypedDict):
    """Median S of all operators."""

    operators: list[MedianRow]


@form("suite_shapes_medians", SuiteMedians)
def medians_parts(result: SuiteMedians, screen: Screen) -> list[Printable]:
    """The public page's table of medians; `suite shapes OP` opens a row."""
    rows = result["operators"]
    columns = [Column("operator", text=True), *numbers("shapes", "S (median)", "lowest", "highest")]
    cells = [
        (
            row.operator,
            str(row.shapes),
            *(percent_text(s) for s in (row.s_median_pct, row.s_low_pct, row.s_high_pct)),
        )
        for row in rows
    ]
    note = "S = SOL / production, both on XPU-A; `solscope suite shapes OPERATOR` lists the shapes"
    return [table(columns, cells, screen.width), Text(""), Text(note)]


class SuiteShapes(TypedDict):
    """The shapes of an operator, with published figures."""

    shapes: list[ShapeRow]


@form("suite_shapes", SuiteShapes)
def shapes_parts(result: SuiteShapes, screen: Screen, *, operator: str) -> list[Printable]:
    """S and the bounds of every shape of one operator."""
    rows = result["shapes"]
    names = list(rows[0].sol_us)
    columns = [
        *numbers("#", "S", "production µs"),
        *(Column(f"SOL {hw} µs", spare=2 * index) for index, hw in enumerate(names)),
        *(Column(f"corrected {hw} µs", spare=2 * index + 1) for index, hw in enumerate(names)),
        Column("shape", text=True),
    ]
    cells = [
        (
            str(row.id),
            percent_text(row.s_pct),
            micro_text(row.prod_us, 1),
            *(micro_text(row.sol_us[hw]) for hw in names),
            *(micro_text(row.corrected_sol_us[hw]) for hw in names),
            row.description,
        )
        for row in rows
    ]
    median = percent_text(upper_median([row.s_pct for row in rows]))
    notes = (
        f"{operator}: {len(rows)} shapes, median S {median}; S = SOL / production, both on XPU-A",
        "SOL: published formula; corrected: only the FLOP and bytes that a correct kernel needs",
    )
    shown = table(columns, cells, screen.width, whole=True)
    return [shown, Text(""), *map(Text, notes)]
