"""RMS normalization with a gate: out = x (mean(x²) + ε)^-½ w silu(z), row by row.

    vector   R (8 H + 1)                   norm 3, SiLU 4, product 1; the mean
    sfu      R (H + 1)                     exponential per value, reciprocal root per row
    bytes    x, z, w, out

Published: the same.

Solutions: run(x [R, H], z [R, H], weight [H], eps) -> out [R, H]; the norm comes before the gate.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element, published_row_cost
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.draws import activations, epsilon, norm_weight, normal, torch_dtype
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("rows hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each row once."""
    rows, hidden, size = axes["rows"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": rows * (8 * hidden + 1), "sfu": rows * (hidden + 1)},
        read_bytes={"weights": size * hidden, "activations": 2 * size * rows * hidden},
        write_bytes={"activations": size * rows * hidden},
    )


@in_suite("atrex_014", "rows hidden=hidden_size")
def published(axes: Axes) -> Published:
    """As published."""
    return published_row_cost(axes, "rows", 8 * axes["hidden"] + 1, inputs=2)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Rows of heads with different scales; gates whose rows differ a hundredfold in size."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    rows, hidden = axes["rows"], axes["hidden"]
    decades = torch.rand(rows, 1, generator=generator, device=generator.device) * 2 - 1
    return {
        "x": activations(generator, rows, hidden, dtype, draw.variant),
        "z": normal(generator, rows, hidden, dtype=dtype).mul_(torch.pow(10.0, decades).to(dtype)),
        "weight": norm_weight(generator, hidden, dtype),
        "eps": epsilon(generator, draw.variant, 1e-6),
    }


def reference(x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float) -> Outputs:
    """In fp64, the result in fp32."""

    def rowwise(rows: torch.Tensor, gate: torch.Tensor) -> Outputs:
        wide, open_ = rows.double(), gate.double()
        scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
        return {"out": (wide * scale * weight.double() * open_ * open_.sigmoid()).float()}

    return by_rows(rowwise, x, z)


_WHY = (
    "fp32 inside, at most the normed row rounded before the gate; gates that"
    " underflow in fp32 may be 0"
)
_TOLERANCE = rounded("bfloat16", 2, _WHY, atol=1e-30)
OUTPUTS = {"out": Output("x", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="x z", vary=("rows",), weights=("weight",))

TITLE = "Gated RMS normalization"
OPERATOR = Operator("gated_rms_norm", TITLE, "norm", cost, published, TASK)
