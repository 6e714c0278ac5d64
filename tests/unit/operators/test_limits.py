"""Limits of what is read from profiles, configs and suites, each at its edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from solscope.errors import InputError
from solscope.operators.calls.call import MOST_ELEMENTS, Recorded
from solscope.operators.from_config.config import LARGEST_FILE, Config, load_model
from solscope.operators.tensors import UnclearError
from solscope.suite.files import SCHEMA, ListedOperator, ListedShape, SuiteFile, validate


def test_a_tensor_has_at_most_as_many_elements_as_any_memory() -> None:
    largest = Recorded("aten::fill_", dims=[[MOST_ELEMENTS]], types=["float"])
    assert largest.tensor(0).numel == MOST_ELEMENTS
    beyond = Recorded("aten::fill_", dims=[[MOST_ELEMENTS + 1]], types=["float"])
    with pytest.raises(UnclearError, match="larger than any memory"):
        beyond.tensor(0)


@pytest.mark.parametrize(
    ("size", "valid"), [(0, False), (1, True), (2**32 - 1, True), (2**32, False)]
)
def test_a_size_of_a_config_is_positive_and_below_four_billion(size: int, valid: bool) -> None:
    config = Config(hidden_size=size)
    if valid:
        assert config.need("hidden_size") == size
    else:
        with pytest.raises(UnclearError, match="the config has no hidden_size"):
            config.need("hidden_size")


@pytest.mark.parametrize(("extra", "message"), [(0, "not a model's config"), (1, "too large")])
def test_a_config_has_at_most_16_mib(tmp_path: Path, extra: int, message: str) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as stream:
        stream.truncate(LARGEST_FILE + extra)
    with pytest.raises(InputError, match=message):
        load_model(file)


@pytest.mark.parametrize(("weight", "valid"), [(0.9991, True), (1.0009, True), (0.9989, False)])
def test_weights_of_shapes_may_miss_one_by_a_thousandth(weight: float, valid: bool) -> None:
    shape = ListedShape("a", {"tokens": 4, "hidden": 256}, weight)
    listed = ListedOperator("rms_norm", "bf16", 1.0, [shape])
    problems = validate(SuiteFile(SCHEMA, "mine", "Mine", [listed]))
    assert (problems == []) == valid
