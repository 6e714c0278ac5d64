"""What the tests of references share: draw inputs, run an answer, judge it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from solscope.bench.verify import outputs_of, wrong_outputs
from solscope.operators import operator
from solscope.operators.task import Draw, Inputs, Outputs, Task, Variant


def task_of(name: str) -> Task:
    task = operator(name).task
    assert task is not None
    return task


def drawn(
    name: str, axes: dict[str, Any], variant: Variant = "typical", seed: int = 11
) -> tuple[Inputs, Outputs]:
    """Inputs of a draw and the reference's outputs."""
    task = task_of(name)
    inputs = task.inputs(axes, Draw(seed, variant=variant))
    return inputs, task.reference(**inputs)


def wrong(name: str, run: Callable[..., Any], inputs: Inputs, wanted: Outputs) -> list[str]:
    """Why the answer of `run` is not right; empty when it is."""
    task = task_of(name)
    return wrong_outputs(task, outputs_of(task, run, inputs), wanted, inputs)


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference in units of the largest value."""
    largest = wanted.double().abs().max().clamp_min(1e-30)
    return float((got.double() - wanted.double()).abs().max() / largest)


def in_fp8(x: torch.Tensor) -> torch.Tensor:
    """The values of a tensor as 8-bit floats with one scale keep them."""
    scale = x.float().abs().max() / 448
    return ((x.float() / scale).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)
