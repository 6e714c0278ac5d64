"""The pages about operators say what the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from solscope.hardware import find
from solscope.operators import operator
from solscope.suite.atrex import load_suite
from solscope.suite.axes import suite_axes
from solscope.suite.published import sol_us
from solscope.suite.tables import RooflineRow, ShapeRow, SuiteRow, corrected_sol_us

DOCS = Path(__file__).parents[3] / "docs"


def span(ratios: list[float]) -> str:
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return low if low == high else f"{low}–{high}"


def ratio_row(name: str) -> list[str]:
    """Published over corrected: FLOP, bytes, time on H20 and on XPU-A, over all shapes."""
    op, ours, cards = load_suite().operator(name), operator(name), (find("H20"), find("XPU-A"))
    flop, size = [], []
    times: tuple[list[float], list[float]] = ([], [])
    for shape in op.shapes:
        cost, stated = ours.cost(suite_axes(op, shape)), shape.published
        if cost.flop:
            flop.append(sum(stated.flops.values()) / cost.flop)
        size.append((stated.read_bytes + stated.write_bytes) / cost.bytes)
        for ratios, card in zip(times, cards, strict=True):
            ratios.append((sol_us(stated, card) or 0) / (corrected_sol_us(cost, card) or 1))
    return [span(flop) if flop else "–", span(size), *map(span, times)]


def test_bounds_page_has_the_ratios_of_every_operator() -> None:
    text = (DOCS / "explain" / "bounds.md").read_text("utf-8")
    rows = {
        cells[0]: list(cells[1:5])
        for cells in re.findall(
            r"^\| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", text, re.MULTILINE
        )
    }
    computed = {op.name: ratio_row(op.name) for op in load_suite().by_importance}
    same = {name for name, row in computed.items() if set(row) <= {"1.00", "–"}}
    assert rows == {name: row for name, row in computed.items() if name not in same}
    for name in same:
        assert f"`{name}`" in text


@pytest.mark.parametrize("struct", [SuiteRow, RooflineRow, ShapeRow])
def test_fields_of_the_suite_are_documented(struct: type[SuiteRow] | type[ShapeRow]) -> None:
    text = (DOCS / "reference" / "json.md").read_text("utf-8")
    part = text.partition("## JSON of suite\n")[2].partition("\n## ")[0]
    assert set(struct.__struct_fields__) <= set(re.findall(r"`(\w+)`", part))
