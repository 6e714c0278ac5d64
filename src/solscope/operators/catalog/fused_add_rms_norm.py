"""Residual addition and RMS normalization: r' = x + r; out = r' (mean(r'²) + ε)^-½ w.

    vector   T (4 H + 1)                   addition, square-add, two products; the mean
    sfu      T                             reciprocal root
    bytes    x, r, w in; out and r' out

Published: the same.

Solutions: run(x [T, H], residual [T, H], weight [H], eps), in place: x becomes out, residual r'.
Statistics are those of the rounded r'.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule
from solscope.operators.calls.norms import norm
from solscope.operators.cost import Axes, Cost, Published, published_row_cost, row_cost
from solscope.operators.suite_axes import ROW_SIZES
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import (
    SMALLEST_ROW,
    activations,
    epsilon,
    norm_weight,
    normal,
    torch_dtype,
)
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Two tensors in, two out."""
    return row_cost(axes, "tokens", 4 * axes["hidden"] + 1, inputs=2, outputs=2)


@in_suite("atrex_008", ROW_SIZES)
def published(axes: Axes) -> Published:
    """As published."""
    return published_row_cost(axes, "tokens", 4 * axes["hidden"] + 1, inputs=2, outputs=2)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """A residual stream with strong outlier channels, an update of 0.1 to 1 of its size."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden = axes["tokens"], axes["hidden"]
    residual = activations(generator, tokens, hidden, dtype, draw.variant, outlier=50.0)
    size = torch.rand(tokens, 1, generator=generator, device=generator.device) * 0.9 + 0.1
    least = SMALLEST_ROW if draw.variant == "extreme" else 0.1
    scale = residual.abs().mean(-1, keepdim=True).clamp_min(least) * size.to(dtype)
    return {
        "x": normal(generator, tokens, hidden, dtype=dtype).mul_(scale),
        "residual": residual,
        "weight": norm_weight(generator, hidden, dtype),
        "eps": epsilon(generator, draw.variant, 1e-6),
    }


def reference(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> Outputs:
    """Sum in fp64 rounded to the dtype, norm of the rounded sum in fp64."""

    def rowwise(rows: torch.Tensor, stream: torch.Tensor) -> Outputs:
        total = (rows.double() + stream.double()).to(x.dtype)
        wide = total.double()
        scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
        return {"x": (wide * scale * weight.double()).float(), "residual": total}

    return by_rows(rowwise, x, residual)


_X_WHY = (
    "the norm of the rounded sum, or of the sum itself (FlashInfer, fla): apart by the"
    " rounding of the sum, by as much in the norm where one outlier makes it, and by"
    " that of the result"
)
_X = rounded("bfloat16", 3, _X_WHY, row_rms=8e-3)
_RESIDUAL = Tolerance("exact", why="one addition, one rounding to nearest")
OUTPUTS = {"x": Output("x", _X), "residual": Output("x", _RESIDUAL)}
TASK = row_task(
    inputs,
    reference,
    OUTPUTS,
    rows="x residual",
    mutates=("x", "residual"),
    vary=("tokens",),
    weights=("weight",),
)


RECORDED: dict[str, CallRule] = {
    "_C::fused_add_rms_norm": norm("fused_add_rms_norm", 0, 2),
    "aiter::add_rmsnorm": norm("fused_add_rms_norm", 1, 4),
    "aiter::rmsnorm2d_fwd_with_add_ck": norm("fused_add_rms_norm", 1, 4),
}

TITLE = "Residual addition and RMS normalization"
OPERATOR = Operator("fused_add_rms_norm", TITLE, "norm", cost, published, TASK, recorded=RECORDED)
