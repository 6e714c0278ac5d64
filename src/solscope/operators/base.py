"""The contract of an operator: what it is, what it costs, how to recognize it.

One file per operator in `catalog/`, with its name and one `OPERATOR` in it. Nothing here imports
torch. The docstring of the operator's file gives the math of its cost. `published` is the cost as
the public data behind the suite states it, which in places is not a bound.

    @cost_model("rows vocabulary", optional="top_k")
    def cost(axes: Axes) -> Cost: ...

    @in_suite("atrex_029", "rows=seq_len vocabulary=hidden_size")
    def published(axes: Axes) -> Published: ...

    TITLE = "Logits outside the top k removed"
    OPERATOR = Operator("topk_filter", TITLE, "sampling", cost, published, TASK)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from solscope.operators.calls.call import CallRule
from solscope.operators.cost import (
    BYTES,
    Axes,
    Cost,
    Published,
    blocks,
    element,
    matrix_pipe,
    tensor_pipe,
)
from solscope.operators.suite_axes import SuiteAxes, renamed
from solscope.operators.task import Task

__all__ = [
    "BYTES",
    "Axes",
    "Cost",
    "CostModel",
    "Operator",
    "Published",
    "PublishedCost",
    "blocks",
    "cost_model",
    "element",
    "in_suite",
    "matrix_pipe",
    "tensor_pipe",
]


class CostModel(msgspec.Struct, frozen=True):
    """The cost of one call as a function of its axes."""

    function: Callable[[Axes], Cost]
    axes: tuple[str, ...]
    """Names of the axes that the function cannot do without."""
    optional: tuple[str, ...] = ()
    """Axes with a default, which the docstring of the operator's file names."""

    def __call__(self, axes: Axes) -> Cost:
        return self.function(axes)


def cost_model(axes: str, optional: str = "") -> Callable[[Callable[[Axes], Cost]], CostModel]:
    """Decorate a cost function with the names of its axes, separated by spaces."""

    def declare(function: Callable[[Axes], Cost]) -> CostModel:
        return CostModel(function, tuple(axes.split()), tuple(optional.split()))

    return declare


class PublishedCost(msgspec.Struct, frozen=True):
    """The cost of one call as the public suite states it."""

    function: Callable[[Axes], Published]
    suite_id: str
    """Id of the operator in the suite, e.g. `atrex_030`."""
    suite_axes: SuiteAxes
    """The operator's axes from a shape of the suite."""

    def __call__(self, axes: Axes) -> Published:
        return self.function(axes)


def in_suite(
    suite_id: str, axes: str | SuiteAxes
) -> Callable[[Callable[[Axes], Published]], PublishedCost]:
    """Decorate a published cost with its id in the suite, and with how the suite calls its axes.

    `axes` is a text as `renamed` takes it, or a function for axes that must be computed.
    """
    convert = renamed(axes) if isinstance(axes, str) else axes

    def declare(function: Callable[[Axes], Published]) -> PublishedCost:
        return PublishedCost(function, suite_id, convert)

    return declare


class Operator(msgspec.Struct, frozen=True):
    """One operator of the catalog."""

    name: str
    title: str
    category: str
    """Kernel category it belongs to (see `attribution/rules.py`)."""
    cost: CostModel
    published: PublishedCost | None = None
    """Cost as published; null for operators not in the suite."""
    task: Task | None = None
    """The executable half: inputs, reference, tolerances; null where it cannot be run."""
    expected: Callable[[Axes], Cost] | None = None
    """Likely cost where the bound must assume the luckiest case (MoE routing); null when equal."""
    recorded: Mapping[str, CallRule] = msgspec.field(default_factory=dict)
    """How to read the axes from a recorded call, by the name under which profiles record it."""

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"

    @property
    def required_task(self) -> Task:
        """The executable half of an operator that is run; one that cannot be is an error."""
        if self.task is None:
            raise AssertionError(f"{self.name} has no task")
        return self.task

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes that the cost cannot do without."""
        return self.cost.axes

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the axes that have a default."""
        return self.cost.optional

    @property
    def suite_id(self) -> str | None:
        """Id in the public suite; null for other operators."""
        return None if self.published is None else self.published.suite_id
