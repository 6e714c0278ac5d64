"""NVTX ranges of torch's `emit_nvtx` become operators."""

from __future__ import annotations

from typing import Any

import pytest

from solscope.readers.nvtx import operators_from_ranges
from tests.making import event, profile


def after(*events: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Kind, name and shapes of the events."""
    table = operators_from_ranges(profile(*events).events)
    return table.select("kind", "name", "input_dims").rows()


OPERATORS = {
    "aten::add, op_id = 314359": ("cpu_op", "aten::add", None),
    "aten::add, seq = 17, op_id = 3": ("cpu_op", "aten::add", None),
    "aten::add, seq = -1, op_id = 3": ("cpu_op", "aten::add", None),
    "aten::mm, op_id = 5, sizes = [[2, 3], [3, 4]]": ("cpu_op", "aten::mm", "[[2,3],[3,4]]"),
    "aten::add, op_id = 5, sizes = [[2, 3], []]": ("cpu_op", "aten::add", "[[2,3],[]]"),
    "aten::x, op_id = 5, sizes = []": ("cpu_op", "aten::x", "[]"),
    "_C::silu_and_mul, op_id = 1": ("cpu_op", "_C::silu_and_mul", None),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_range_that_names_an_operator(name: str) -> None:
    assert after(event("annotation", name, 0, 5)) == [OPERATORS[name]]


@pytest.mark.parametrize(
    "name",
    [
        "step 5",
        "aten::add",
        "add, op_id = 3",
        "before aten::add, op_id = 3",
        "sizes = [[2]]",
        "",
    ],
)
def test_other_annotations_stay(name: str) -> None:
    assert after(event("annotation", name, 0, 5)) == [("annotation", name, None)]


def test_only_annotations_change() -> None:
    name = "aten::add, op_id = 3, sizes = [[2]]"
    events = [event("annotation", name, 0, 5), event("kernel", name, 1, 2)]
    assert after(*events) == [("cpu_op", "aten::add", "[[2]]"), ("kernel", name, None)]


def test_order_and_other_columns_stay() -> None:
    before = profile(
        event("kernel", "k", 9, 1, correlation=4),
        event("annotation", "aten::b, op_id = 2", 3, 5),
        event("annotation", "step", 2, 8),
        event("annotation", "aten::a, op_id = 1", 1, 1),
    ).events
    table = operators_from_ranges(before)
    changed = ["kind", "name", "input_dims"]
    assert table["name"].to_list() == ["k", "aten::b", "step", "aten::a"]
    assert table.schema == before.schema
    assert table.drop(changed).equals(before.drop(changed))


def test_shapes_of_other_events_stay() -> None:
    known = event("cpu_op", "aten::mul", 0, 5, input_dims="[[7]]")
    found = event("annotation", "aten::add, op_id = 3", 0, 5)
    assert after(known, found) == [("cpu_op", "aten::mul", "[[7]]"), ("cpu_op", "aten::add", None)]


def test_without_operators_the_table_is_the_same() -> None:
    before = profile(event("annotation", "step", 0, 5)).events
    assert operators_from_ranges(before) is before


def test_no_events() -> None:
    before = profile(event("kernel", "k", 0, 5)).events.clear()
    assert operators_from_ranges(before).is_empty()
