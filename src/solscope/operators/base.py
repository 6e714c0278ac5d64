"""The contract of an operator: what it is, what it costs, how to recognize it.

One file per operator in `catalog/`, with its name and one `OPERATOR` in it. Nothing here imports
torch. The docstring of the operator's file gives the math of its cost. `published` is the cost as
the public data behind the suite states it, which in places is not a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
from solscope.operators.suite_axes import SuiteAxes
from solscope.operators.task import Task

__all__ = [
    "BYTES",
    "Axes",
    "Cost",
    "Operator",
    "Published",
    "blocks",
    "element",
    "matrix_pipe",
    "tensor_pipe",
]


@dataclass(frozen=True)
class Operator:
    """One operator of the catalog."""

    name: str
    title: str
    category: str
    """Kernel category it belongs to (see `attribution/classify.py`)."""
    axes: tuple[str, ...]
    """Names of the axes that `cost` reads and cannot do without."""
    cost: Callable[[Axes], Cost] = field(repr=False)
    suite_id: str | None = None
    """Id in the public suite, e.g. `atrex_030`; null for other operators."""
    suite_axes: SuiteAxes | None = field(default=None, repr=False)
    """The axes from a shape of the public suite; null for other operators."""
    optional: tuple[str, ...] = ()
    """Axes with a default, which the docstring of the operator's file names."""
    published: Callable[[Axes], Published] | None = field(default=None, repr=False)
    """Cost as published; null for operators not in the suite."""
    expected: Callable[[Axes], Cost] | None = field(default=None, repr=False)
    """Likely cost where the bound must assume the luckiest case (MoE routing); null when equal."""
    task: Task | None = field(default=None, repr=False)
    """The executable half: inputs, reference, tolerances; null where it cannot be run."""
    recorded: Mapping[str, CallRule] = field(default_factory=dict, repr=False)
    """How to read the axes from a recorded call, by the name under which profiles record it."""
