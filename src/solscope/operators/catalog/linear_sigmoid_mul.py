"""A linear layer whose sigmoid gates another tensor: out = sigmoid(x Wᵀ + b) * y.

    tensor   2 T H O                       the product
    vector   2 T O                         bias and gate
    sfu      T O                           exponential of the sigmoid
    bytes    x, W, b, y, out

Real models gate with one column (O = 1, broadcast over y of width H); the suite has O = 4096.
Published: the same, less one addition per output.

In: hidden_states [T, H], weight [O, H], bias [O], post_mul_mat [T, O] (y). Out: out [T, O].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element, tensor_pipe
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import normal, row_scales, torch_dtype
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


@cost_model("tokens hidden out", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each tensor once."""
    tokens, hidden, out, size = axes["tokens"], axes["hidden"], axes["out"], element(axes)
    return Cost(
        flops={
            tensor_pipe(axes): 2 * tokens * hidden * out,
            "vector.fp32": 2 * tokens * out,
            "sfu": tokens * out,
        },
        read_bytes={
            "weights": size * (hidden * out + out),
            "activations": size * (tokens * hidden + tokens * out),
        },
        write_bytes={"activations": size * tokens * out},
    )


@in_suite("atrex_017", "tokens=token_count hidden=hidden_size out=out_features")
def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden, out = axes["tokens"], axes["hidden"], axes["out"]
    return Published(
        flops={"bf16": 2 * tokens * hidden * out + tokens * out},
        read_bytes=2 * (tokens * hidden + hidden * out + out + tokens * out),
        write_bytes=2 * tokens * out,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Gates from shut to open: x W has a standard deviation of 2. `extreme` saturates them."""
    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden, out = axes["tokens"], axes["hidden"], axes["out"]
    scale = row_scales(generator, tokens, "typical", spread=0.5).to(dtype)
    std = 2 * hidden**-0.5 * (10 if draw.variant == "extreme" else 1)
    return {
        "hidden_states": normal(generator, tokens, hidden, dtype=dtype).mul_(scale),
        "weight": normal(generator, out, hidden, dtype=dtype, std=std),
        "bias": normal(generator, out, dtype=dtype),
        "post_mul_mat": normal(generator, tokens, out, dtype=dtype),
    }


def reference(
    hidden_states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    post_mul_mat: torch.Tensor,
) -> Outputs:
    """In fp64, without a rounding before the sigmoid."""
    wide, offset = weight.double(), bias.double()

    def rows(x: torch.Tensor, y: torch.Tensor) -> Outputs:
        return {"out": ((x.double() @ wide.T + offset).sigmoid() * y.double()).float()}

    return by_rows(rows, hidden_states, post_mul_mat)


_WHY = (
    "the product in fp32; gate, sigmoid and result each rounded to bf16: 2.4e-3 "
    "in all; 8-bit operands give 1e-2"
)
_TOLERANCE = Tolerance("close", atol=6e-3, rtol=2e-2, rms=3.5e-3, row_rms=6e-3, why=_WHY)
OUTPUTS = {"out": Output("hidden_states", _TOLERANCE)}
TASK = row_task(
    inputs,
    reference,
    OUTPUTS,
    rows="hidden_states post_mul_mat",
    vary=("tokens",),
    weights=("weight", "bias"),
)

TITLE = "Linear layer, sigmoid, gate"
OPERATOR = Operator("linear_sigmoid_mul", TITLE, "gemm", cost, published, TASK)
