"""The right outputs of one set of inputs: computed whole, or at sampled rows where that is long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Cost
from solscope.operators.task import Output, Task

if TYPE_CHECKING:
    import torch

ROWS = 64
"""Rows compared where the reference is not computed whole."""


@dataclass(frozen=True)
class Effort:
    """How much checking costs at most."""

    rounds: int = 2
    """Draws of each listed shape."""
    extra: int = 6
    """Extra cases per operator, besides the listed shapes."""
    extra_bytes: float = 64e6
    """Size of those cases."""
    large_bytes: float = 1e9
    large_flop: float = 1e11
    """Size of two more, beside larger shapes."""
    full_flop: float = 4e11
    full_bytes: float = 2e9
    """A reference is computed whole up to here, at sampled rows beyond."""
    max_full_reference_factor: float = 64.0
    """Where rows cannot be sampled, the whole reference is computed up to this many times those
    limits; a shape beyond that is unsupported."""


CPU_EFFORT = Effort(
    full_flop=4e9, full_bytes=2e8, extra_bytes=4e6, large_bytes=32e6, large_flop=3e8
)


def by_rows(cost: Cost, task: Task, effort: Effort) -> bool | None:
    """Whether the reference is taken at rows; null when no affordable reference exists.

    Rows will do where they show every output.
    """
    flop, size = cost.flop / effort.full_flop, cost.bytes / effort.full_bytes
    if max(flop, size) <= 1:
        return False
    if task.sampled is not None and not task.unsampled:
        return True
    return False if max(flop, size) <= effort.max_full_reference_factor else None


@dataclass(frozen=True)
class Wanted:
    """The right outputs of one set of inputs: whole, or at rows."""

    outputs: dict[str, Any]
    inputs: Mapping[str, Any]
    """As they were before the call: what is updated with its values, of others what they are."""
    source: Callable[[], dict[str, Any]]
    """Gives all of them, values included: made again, where they are too large to keep."""
    rows: list[int] | None = None
    total_rows: int | None = None

    def shape(self, name: str) -> list[int]:
        """The whole shape of an output."""
        size = list(self.outputs[name].shape)
        return size if self.rows is None else [int(self.total_rows or 0), *size[1:]]

    def at_rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """Of a whole tensor, what there is of the outputs."""
        return tensor if self.rows is None else tensor[self.rows]

    def bytes(self, name: str, output: Output) -> int:
        """What a solution returns for an output, in bytes."""
        return math.prod(self.shape(name)) * output.torch_dtype(self.inputs).itemsize


def wanted(
    task: Task, source: Callable[[], dict[str, Any]], rows: Callable[[int], list[int]] | None
) -> Wanted:
    """The reference on inputs that `source` gives: whole, or at rows of as many as there are."""
    import torch

    inputs = source()
    known = _known(task, inputs)
    with torch.no_grad():
        if rows is None or task.sampled is None:
            return Wanted(dict(task.reference(**inputs)), known, source)
        total = row_count(task, inputs)
        chosen = rows(total)
        device = next(v.device for v in inputs.values() if isinstance(v, torch.Tensor))
        sampled = task.sampled(inputs, torch.tensor(chosen, device=device))
    return Wanted(dict(sampled), known, source, chosen, total)


def _known(task: Task, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs without the values of tensors, but for those that a call updates."""
    import torch

    return {
        name: torch.empty_like(value, device="meta")
        if isinstance(value, torch.Tensor) and name not in task.mutates
        else value
        for name, value in inputs.items()
    }


def row_count(task: Task, inputs: Mapping[str, Any]) -> int:
    """How many rows the sampled outputs have."""
    import torch

    if task.rows is not None:
        return task.rows(dict(inputs))
    first = next(v for v in inputs.values() if isinstance(v, torch.Tensor))
    return int(first.shape[0])


def draw_rows(total: int, count: int = ROWS) -> list[int]:
    """Rows to compare, which no worker knows; the first and the last always."""
    import secrets

    if total <= count:
        return list(range(total))
    drawn = secrets.SystemRandom().sample(range(1, total - 1), count - 2)
    return sorted([0, total - 1, *drawn])
