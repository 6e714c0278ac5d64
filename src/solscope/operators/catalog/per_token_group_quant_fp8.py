"""Quantization to fp8 with one scale per group of a row: scale = max|x| / M, q = x / scale.

    vector   3 T H                         magnitude, maximum, product
    bytes    x (16 bit) in; q (fp8) and T H/group scales (fp32) out

Published: fewer FLOP (one per value and group), the same bytes.

Solutions: run(x [T, H], group_size, fp8) -> q [T, H], scales [T, H/group]; H is a multiple of the
group. Groups of zeros have codes of 0 with any finite scale, or any numbers with a scale of 0.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks, element
from solscope.operators.task import Draw, Inputs, Outputs
from solscope.operators.tasks.draws import activations, another, places, torch_dtype
from solscope.operators.tasks.fp8 import quantize
from solscope.operators.tasks.quantized import quantized_outputs
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


LEAST_AMAX = 1e-4
"""Where the largest value of a group is less, DeepGEMM takes this instead; others do not."""


@cost_model("tokens hidden group_size", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each value once in, once out."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    scales = tokens * blocks(hidden, axes["group_size"])
    return Cost(
        flops={"vector.fp32": 3 * tokens * hidden},
        read_bytes={"activations": element(axes) * tokens * hidden},
        write_bytes={"activations": tokens * hidden + 4 * scales},
    )


@in_suite("atrex_025", "tokens=token_count hidden=hidden_size group_size")
def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    groups = hidden // axes["group_size"]
    return Published(
        flops={"fp8_e4m3": tokens * (hidden + groups)},
        read_bytes=2 * tokens * hidden,
        write_bytes=tokens * (hidden + 4 * groups),
    )


GROUP_SIZES = (32, 64, 128)
"""Of deployed kernels: a scale for 32 values in MX formats, for 128 in DeepSeek-V3."""


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Hidden states whose groups differ in scale by up to 2^12, some of them zero.

    `varied` has groups of another size.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden, size = axes["tokens"], axes["hidden"], axes["group_size"]
    if draw.variant == "varied":
        size = another(generator, [one for one in GROUP_SIZES if hidden % one == 0], size)
    x = activations(generator, tokens, hidden, dtype, draw.variant, smallest=100 * LEAST_AMAX)
    groups = blocks(hidden, size)
    power = torch.randint(-6, 7, (groups,), generator=generator, device=generator.device)
    factor = torch.pow(2.0, power.float()).repeat_interleave(size)[:hidden]
    x.mul_(factor.to(dtype))
    if tokens >= 4 and groups > 1:
        row, group = places(generator, 1, tokens)[0], places(generator, 1, groups)[0]
        x[row, group * size : (group + 1) * size] = 0
    return {"x": x, "group_size": size, "fp8": draw.fp8}


def reference(x: torch.Tensor, group_size: int, fp8: str) -> Outputs:
    """Scales in fp32, codes of the exact quotient."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        groups = rows.double().view(rows.shape[0], -1, group_size)
        codes, scale = quantize(groups, fp8, least_scale=1e-10)
        return {"q": codes.flatten(-2), "scales": scale.squeeze(-1)}

    return by_rows(rowwise, x)


OUTPUTS = quantized_outputs("scales", floor=1e-10)
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",))

TITLE = "Quantization to fp8, a scale per group of a token"
OPERATOR = Operator("per_token_group_quant_fp8", TITLE, "quant", cost, published, TASK)
