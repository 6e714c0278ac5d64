"""RMS normalization of rows: out = x (mean(x²) + ε)^-½ w.

    vector   T (3 H + 1)                   square-add, two products; the mean
    sfu      T                             reciprocal root
    bytes    x, w, out

Published: the same.

Solutions: run(x [T, H], weight [H], eps) -> out [T, H]; fp32 inside, one or two roundings.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/small.py.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule
from solscope.operators.calls.norms import norm
from solscope.operators.cost import Axes, Cost, Published, published_row_cost, row_cost
from solscope.operators.suite_axes import ROW_SIZES
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.draws import activations, epsilon, norm_weight, torch_dtype
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each row once in and out; it stays on the chip between the two passes."""
    return row_cost(axes, "tokens", 3 * axes["hidden"] + 1)


@in_suite("atrex_027", ROW_SIZES)
def published(axes: Axes) -> Published:
    """As published."""
    return published_row_cost(axes, "tokens", 3 * axes["hidden"] + 1)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Hidden states with row scales, a zero row, a spike; weights around 1 with zeros and tens."""
    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    hidden = axes["hidden"]
    return {
        "x": activations(generator, axes["tokens"], hidden, dtype, draw.variant),
        "weight": norm_weight(generator, hidden, dtype),
        "eps": epsilon(generator, draw.variant, 1e-6),
    }


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Outputs:
    """In fp64, the result in fp32."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        wide = rows.double()
        scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
        return {"out": (wide * scale * weight.double()).float()}

    return by_rows(rowwise, x)


_TOLERANCE = rounded("bfloat16", 2, "fp32 inside; vLLM rounds x·rstd before the weight, then again")
OUTPUTS = {"out": Output("x", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",), weights=("weight",))


RECORDED: dict[str, CallRule] = {
    "aten::_fused_rms_norm": norm("rms_norm", 0, 2),
    "_C::rms_norm": norm("rms_norm", 1, 2),
    "aiter::rmsnorm": norm("rms_norm", 1, 2),
    "aiter::rms_norm": norm("rms_norm", 0, 1),
}

TITLE = "RMS normalization"
OPERATOR = Operator("rms_norm", TITLE, "norm", cost, published, TASK, recorded=RECORDED)
