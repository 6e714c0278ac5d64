"""Everything in the suite about one operator: math, inputs, outputs, tolerances, shapes."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import msgspec

from solscope.operators import OPERATOR_MODULES, operator
from solscope.operators.base import Operator
from solscope.operators.task import Draw, Output, Task, Tolerance
from solscope.suite.files import ListedShape, SuiteFile
from solscope.suite.scale import scale_down


class InputRow(msgspec.Struct, frozen=True):
    """One parameter of `run`."""

    name: str
    dtype: str
    """torch's name of it; `int`, `float`, `str`, `list` for plain values."""
    shape: list[int] | None
    """At the axes of the example; null for plain values."""
    value: Any = None
    """Of plain values."""
    weight: bool = False
    """Whether it belongs to the model, so that `prepare` of a solution may pack it."""


class OutputRow(msgspec.Struct, frozen=True):
    """One output and how it is judged."""

    name: str
    dtype: str
    """torch's name, or the input that it follows."""
    mutated: bool
    """Whether it is an input that is updated in place."""
    tolerance: Tolerance
    rule: str | None
    """What is compared in place of the tolerance alone; null for the tolerance alone."""


class OperatorCard(msgspec.Struct, frozen=True):
    """One operator of a suite."""

    operator: str
    title: str
    category: str
    suite: str
    dtype: str
    importance_norm_pct: float
    """Share in the suite's importance."""
    about: str
    """The docstring: formulas, cost, what a solution is called with."""
    axes: list[str]
    optional: list[str]
    vary: list[str]
    """Axes that a solution must take at any size."""
    example: dict[str, Any]
    """Small axes, those of the shapes of `inputs`."""
    inputs: list[InputRow]
    """Empty when the operator cannot be run, or torch is not installed."""
    outputs: list[OutputRow]
    shapes: list[ListedShape]
    note: str | None = None
    """Why there are no inputs."""


def describe(suite: SuiteFile, name: str) -> OperatorCard:
    """The card of one operator."""
    listed, op = suite.operator(name), operator(name)
    example = scale_down(listed.shapes[0].axes)
    inputs, note = _inputs(op, example)
    return OperatorCard(
        operator=name,
        title=op.title,
        category=op.category,
        suite=suite.name,
        dtype=listed.dtype,
        importance_norm_pct=100 * listed.importance / suite.importance_sum,
        about=inspect.cleandoc(sys.modules[OPERATOR_MODULES[name]].__doc__ or ""),
        axes=list(op.axes),
        optional=list(op.optional),
        vary=list(op.task.vary) if op.task else [],
        example=example,
        inputs=inputs,
        outputs=_outputs(op.task) if op.task else [],
        shapes=listed.shapes,
        note=note,
    )


def _inputs(op: Operator, axes: dict[str, Any]) -> tuple[list[InputRow], str | None]:
    if op.task is None:
        return [], "this operator has no reference: it can be bounded, not run"
    try:
        drawn = op.task.inputs(axes, Draw(seed=1))
    except ModuleNotFoundError as error:
        return [], f"inputs need {error.name}: pip install 'solscope[bench]'"
    weights = op.task.weights
    return [_input(name, value, name in weights) for name, value in drawn.items()], None


def _input(name: str, value: Any, weight: bool) -> InputRow:
    if hasattr(value, "shape"):
        dtype = str(value.dtype).removeprefix("torch.")
        return InputRow(name, dtype, list(value.shape), weight=weight)
    return InputRow(name, type(value).__name__, None, value)


def _outputs(task: Task) -> list[OutputRow]:
    return [
        OutputRow(name, output.dtype, name in task.mutates, output.tolerance, _rule(output))
        for name, output in task.outputs.items()
    ]


def _rule(output: Output) -> str | None:
    if output.compare is None:
        return None
    return inspect.cleandoc(output.compare.__doc__ or "by its own rule").splitlines()[0]
