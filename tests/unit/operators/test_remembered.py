"""What outputs of one call have in common is computed once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from solscope.operators.tasks.remembered import remembered


def counting() -> tuple[Callable[[Mapping[str, Any]], torch.Tensor], list[int]]:
    """Something that is made of inputs, and a list as long as how often that was."""
    asked: list[int] = []

    @remembered
    def doubled(inputs: Mapping[str, Any]) -> torch.Tensor:
        asked.append(1)
        found: torch.Tensor = inputs["x"] * inputs["factor"]
        return found

    return doubled, asked


def test_the_same_inputs_are_asked_about_once() -> None:
    doubled, asked = counting()
    x = torch.ones(3)
    first = doubled({"x": x, "factor": 2})
    assert doubled({"x": x, "factor": 2}) is first
    assert len(asked) == 1


def test_other_inputs_are_not_mistaken_for_them() -> None:
    doubled, asked = counting()
    x = torch.ones(3)
    doubled({"x": x, "factor": 2})
    assert doubled({"x": x.clone(), "factor": 2}).tolist() == [2, 2, 2]
    assert doubled({"x": x, "factor": 3}).tolist() == [3, 3, 3]
    assert doubled({"x": x, "factor": torch.tensor(3.0)}).tolist() == [3, 3, 3]
    assert doubled({"x": x, "factor": 3, "rows": x}).tolist() == [3, 3, 3]
    assert len(asked) == 5


def test_inputs_that_were_changed_in_place_are_others() -> None:
    doubled, asked = counting()
    x = torch.ones(3)
    doubled({"x": x, "factor": 2})
    x += 1
    assert doubled({"x": x, "factor": 2}).tolist() == [4, 4, 4]
    assert len(asked) == 2


def test_what_was_made_goes_with_the_inputs() -> None:
    doubled, _ = counting()
    x = torch.ones(3)
    made = weakref.ref(doubled({"x": x, "factor": 2}))
    gc.collect()
    assert made() is not None
    del x
    gc.collect()
    assert made() is None
