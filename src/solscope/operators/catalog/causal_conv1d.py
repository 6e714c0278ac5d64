"""Depthwise causal convolution over tokens, then SiLU: out[:,t] = silu(b + Σ_j w[:,j] z[:,t+j]).

z is the kept state of w - 1 columns followed by the T tokens.

    vector   T dim (2 w + 4)               taps, and 4 for SiLU
    sfu      T dim                         exponential
    bytes    x and out, taps, bias, state in

Writing the new state moves 2 dim (w - 1) bytes more; kernels that keep it elsewhere need not, so
the bound leaves it out. Published: the same.

In: x [dim, T], weight [dim, w], bias [dim], conv_state [1, dim, w - 1], oldest first. Out: out
[dim, T]; conv_state becomes the last w - 1 columns of z, in place. weight[:, w-1] meets the current
token.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/attention.py.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.draws import normal, row_scales
from solscope.operators.tasks.rows import by_rows

if TYPE_CHECKING:
    import torch


@cost_model("tokens dim width", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Tokens once in and out."""
    tokens, dim, width, size = axes["tokens"], axes["dim"], axes["width"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * dim * (2 * width + 4), "sfu": tokens * dim},
        read_bytes={
            "weights": size * dim * (width + 1),
            "activations": size * tokens * dim,
            "state": size * dim * (width - 1),
        },
        write_bytes={"activations": size * tokens * dim},
    )


@in_suite("atrex_003", "tokens=token_count dim width")
def published(axes: Axes) -> Published:
    """As published."""
    tokens, dim, width = axes["tokens"], axes["dim"], axes["width"]
    return Published(
        flops={"bf16": tokens * dim * (2 * width + 4)},
        read_bytes=2 * tokens * dim + 2 * dim * width + 2 * dim + 2 * dim * (width - 1),
        write_bytes=2 * tokens * dim,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Channels of unlike scale; `extreme` has channels from 1e-3 to 1e3."""
    import torch

    generator, dtype = draw.generator(), torch.bfloat16
    tokens, dim, width = axes["tokens"], axes["dim"], axes["width"]
    scale = row_scales(generator, dim, "typical", spread=0.5).to(dtype)
    if draw.variant == "extreme":
        scale = (10 ** torch.linspace(-3, 3, dim, device=draw.device)).to(dtype)[:, None]
    return {
        "x": normal(generator, dim, tokens, dtype=dtype).mul_(scale),
        "weight": normal(generator, dim, width, dtype=dtype, std=0.5),
        "bias": normal(generator, dim, dtype=dtype, std=0.1),
        "conv_state": normal(generator, 1, dim, width - 1, dtype=dtype).mul_(scale),
    }


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, conv_state: torch.Tensor
) -> Outputs:
    """Tap by tap in fp64, some channels at a time."""
    import torch

    tokens, width = x.shape[1], weight.shape[1]

    def channels(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, state: torch.Tensor
    ) -> Outputs:
        z = torch.cat([state, x], 1)
        total = bias.double()[:, None].expand(-1, tokens)
        for tap in range(width):
            total = total + weight[:, tap, None].double() * z[:, tap : tap + tokens].double()
        return {"out": torch.nn.functional.silu(total).float(), "state": z[:, tokens:]}

    parts = by_rows(channels, x, weight, bias, conv_state[0])
    return {"out": parts["out"], "conv_state": parts["state"][None]}


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The outputs of some channels; the state has them in another dimension."""
    picked = {name: inputs[name][rows] for name in ("x", "weight", "bias")}
    return {"out": reference(**picked, conv_state=inputs["conv_state"][:, rows])["out"]}


_OUT_WHY = (
    "sum in fp32 and one rounding to bf16 (1.7e-3), or two where the sum is "
    "rounded before SiLU (2.4e-3), which for negative sums multiplies its error"
)
_OUT = Tolerance("close", atol=5e-3, rtol=2**-6, rms=4e-3, row_rms=2.5e-2, why=_OUT_WHY)
OUTPUTS = {
    "out": Output("bfloat16", _OUT),
    "conv_state": Output("bfloat16", Tolerance(kind="exact", why="a copy")),
}
TASK = Task(
    inputs,
    reference,
    OUTPUTS,
    sampled=sampled,
    unsampled=("conv_state",),
    mutates=("conv_state",),
    vary=("tokens",),
    weights=("weight", "bias"),
)

TITLE = "Depthwise causal convolution with SiLU"
OPERATOR = Operator("causal_conv1d", TITLE, "conv", cost, published, TASK)
