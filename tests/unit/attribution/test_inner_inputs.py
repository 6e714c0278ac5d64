"""Inputs of operators that read their weights inside."""

from __future__ import annotations

from typing import Any

import polars as pl

from solscope.attribution.inner_inputs import MOST_TENSORS, inputs_of
from solscope.events import json_list
from tests.making import event, profile

BF16 = "c10::BFloat16"


def operator(name: str, start: int, dur: int, dims: str, **more: Any) -> dict[str, Any]:
    types = "[" + ",".join(f'"{BF16}"' for _ in json_list(dims)) + "]"
    made = event("cpu_op", name, start, dur) | {"input_dims": dims, "input_types": types}
    return made | more


def dims_of(events: list[dict[str, Any]], rows: list[int | None]) -> list[list[Any]]:
    table = profile(*events).events
    texts = inputs_of(table, pl.Series(rows, dtype=pl.UInt32))["input_dims"].cast(pl.String)
    return [json_list(text) for text in texts]


def test_tensors_of_inner_operators_are_appended_once() -> None:
    events = [
        operator("vllm::moe_forward", 0, 100, "[[32,64]]"),
        operator("aten::view", 10, 5, "[[8,64,96],[]]"),
        operator("aten::view", 20, 5, "[[8,64,96],[4]]"),
        operator("aten::view", 200, 5, "[[8,1,1]]"),
    ]
    assert dims_of(events, [0, 3, None]) == [[[32, 64], [8, 64, 96]], [[8, 1, 1]], []]


def test_other_operators_keep_their_own_inputs() -> None:
    events = [operator("aten::mm", 0, 100, "[[2,3]]"), operator("aten::view", 10, 5, "[[8,9]]")]
    assert dims_of(events, [0]) == [[[2, 3]]]


def test_an_operator_on_another_thread_is_not_inside() -> None:
    other = operator("aten::view", 10, 5, "[[8,64,96]]", tid=7)
    assert dims_of([operator("vllm::moe_forward", 0, 100, "[[2,4]]"), other], [0]) == [[[2, 4]]]


def test_the_number_of_appended_tensors_is_limited() -> None:
    many = [operator("aten::view", 1 + i, 1, f"[[8,{i + 2}]]") for i in range(2 * MOST_TENSORS)]
    events = [operator("vllm::moe_forward", 0, 10_000, "[[2,4]]"), *many]
    assert len(dims_of(events, [0])[0]) == 1 + MOST_TENSORS
