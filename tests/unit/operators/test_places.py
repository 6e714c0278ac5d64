"""An operator is in one file, which names every other place that knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import solscope
from solscope.operators import OPERATOR_MODULES, operator, operators
from solscope.operators.cost import Axes
from solscope.operators.suite_axes import renamed
from solscope.suite.files import ListedOperator, load

SOURCE = Path(solscope.__file__).parent
ELSEWHERE = {
    "kernels": ("attribution/rules.toml",),
    "roles": tuple(
        path.relative_to(SOURCE).as_posix()
        for path in sorted((SOURCE / "operators" / "from_config").glob("*.py"))
    ),
    "shapes": ("suite/shipped/decode.json",),
}
"""Where an operator's name may stand besides its file, by what is found there: names of kernels,
roles of a model's layer, shapes beyond the public suite."""


def also(name: str) -> str:
    """The comment that the operator's file must have; empty where none is due."""
    # In the rules, a category may have the same name ("copy").
    patterns = {".toml": rf'^operator = "{name}"$', ".py": rf'"{name}"', ".json": rf'"{name}"'}
    places = [
        f"{what} in {path}"
        for what, paths in ELSEWHERE.items()
        for path in paths
        if re.search(patterns[Path(path).suffix], (SOURCE / path).read_text("utf-8"), re.MULTILINE)
    ]
    return f"Also: {', '.join(places)}." if places else ""


@pytest.mark.parametrize("name", OPERATOR_MODULES)
def test_the_file_names_every_other_place(name: str) -> None:
    file = SOURCE / "operators" / "catalog" / f"{name}.py"
    comment = re.search(r"^# (Also: (?:.*\n)(?:# .*\n)*)", file.read_text("utf-8"), re.MULTILINE)
    text = comment[1].replace("\n# ", " ").strip() if comment else ""
    assert text == also(name)


def test_no_two_operators_claim_one_recorded_name() -> None:
    names = [name for op in operators() for name in op.recorded]
    assert sorted(names) == sorted(set(names))


class ReadAxes(dict[str, Any]):
    """Axes that keep the names that were asked for."""

    def __init__(self, axes: Axes) -> None:
        super().__init__(axes)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("listed", load("atrex").operators, ids=lambda listed: listed.operator)
def test_a_cost_needs_no_other_axes_than_it_declares(listed: ListedOperator) -> None:
    op = operator(listed.operator)
    read = ReadAxes({name: listed.shapes[0].axes[name] for name in op.axes})
    op.cost(read)
    assert set(op.axes) <= read.names <= {*op.axes, *op.optional}


class SuiteSizesOf(NamedTuple):
    """A shape of the suite."""

    init: dict[str, int]
    input: dict[str, int]
    W_flops: Mapping[str, int] = MappingProxyType({})
    Q_write: int = 0


def test_axes_have_the_name_of_the_suite_or_their_own() -> None:
    shape = SuiteSizesOf(init={"heads": 4}, input={"num_tokens": 7, "head_dim": 64})
    axes = {"tokens": 7, "heads": 4, "head_dim": 64}
    assert renamed("tokens=num_tokens heads head_dim")(shape) == axes
    with pytest.raises(KeyError, match="token_count"):
        renamed("tokens=token_count")(shape)
