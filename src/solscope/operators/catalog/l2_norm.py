"""Rows scaled to unit length: out = x (Σ x² + ε)^-½.

    vector   3 T H                         square-add and product
    sfu      T                             reciprocal root
    bytes    x, out

Published: the same.

Solutions: run(x [T, H], eps) -> out [T, H]; eps is added to the sum of squares.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, published_row_cost, row_cost
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.draws import (
    LARGEST_ROW,
    epsilon,
    normal,
    spread_scales,
    torch_dtype,
)
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each row once."""
    return row_cost(axes, "tokens", 3 * axes["hidden"], weights=0)


@in_suite("atrex_015", "tokens=num_tokens hidden=hidden_size")
def published(axes: Axes) -> Published:
    """As published."""
    return published_row_cost(axes, "tokens", 3 * axes["hidden"], weights=0)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Rows over seven decades: the small ones feel eps, a constant scale fails everywhere."""
    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden = axes["tokens"], axes["hidden"]
    smallest, largest = (1e-6, LARGEST_ROW) if draw.variant == "extreme" else (1e-5, 1e2)
    scale = spread_scales(generator, tokens, smallest, largest).to(dtype)
    return {
        "x": normal(generator, tokens, hidden, dtype=dtype).mul_(scale),
        "eps": epsilon(generator, draw.variant, 1e-6),
    }


def reference(x: torch.Tensor, eps: float) -> Outputs:
    """In fp64, the result in fp32."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        wide = rows.double()
        return {"out": (wide * (wide.square().sum(-1, keepdim=True) + eps).rsqrt()).float()}

    return by_rows(rowwise, x)


OUTPUTS = {"out": Output("x", rounded("bfloat16", 1, "fp32 inside, one rounding"))}
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",))

TITLE = "L2 normalization"
OPERATOR = Operator("l2_norm", TITLE, "norm", cost, published, TASK)
