"""Layer normalization of rows: out = (x - μ) (σ² + ε)^-½ w + b.

    vector   7 T H                         mean 1, center 1, square-add 2, scale 1, affine 2
    sfu      T                             reciprocal root
    bytes    x, w, b, out

Published: the same.

Solutions: run(x [T, H], weight [H], bias [H], eps) -> out [T, H]; biased variance.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule
from solscope.operators.calls.norms import norm
from solscope.operators.cost import Axes, Cost, Published, published_row_cost, row_cost
from solscope.operators.suite_axes import SuiteSizes
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.draws import activations, epsilon, norm_weight, normal, torch_dtype
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each row once."""
    return row_cost(axes, "tokens", 7 * axes["hidden"], weights=2)


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """Rows along the last dimension."""
    *rows, hidden = shape.input["shape"]
    return {"tokens": math.prod(rows), "hidden": hidden}


@in_suite("atrex_016", suite_axes)
def published(axes: Axes) -> Published:
    """As published."""
    return published_row_cost(axes, "tokens", 7 * axes["hidden"], weights=2)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Hidden states whose row means reach fifty times their spread, where naive variances fail."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden = axes["tokens"], axes["hidden"]
    x = activations(generator, tokens, hidden, dtype, draw.variant)
    share = torch.rand(tokens, 1, generator=generator, device=generator.device)
    mean = x.abs().mean(-1, keepdim=True) * (share.pow(8) * 50).to(dtype)
    return {
        "x": x.add_(mean),
        "weight": norm_weight(generator, hidden, dtype),
        "bias": normal(generator, hidden, dtype=dtype, std=0.5),
        "eps": epsilon(generator, draw.variant, 1e-5),
    }


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Outputs:
    """In fp64 with two passes, the result in fp32."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        wide = rows.double()
        centered = wide - wide.mean(-1, keepdim=True)
        scale = (centered.square().mean(-1, keepdim=True) + eps).rsqrt()
        return {"out": (centered * scale * weight.double() + bias.double()).float()}

    return by_rows(rowwise, x)


_WHY = (
    "fp32 inside, one rounding; 2e-4 where product and bias cancel: fp32 means of rows far from 0"
)
_TOLERANCE = rounded("bfloat16", 1, _WHY, atol=2e-4)
OUTPUTS = {"out": Output("x", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",), weights=("weight", "bias"))


RECORDED: dict[str, CallRule] = {"aten::native_layer_norm": norm("layer_norm", 0, 2)}

TITLE = "Layer normalization"
OPERATOR = Operator("layer_norm", TITLE, "norm", cost, published, TASK, recorded=RECORDED)
