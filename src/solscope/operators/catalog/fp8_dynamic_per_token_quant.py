"""Quantization to fp8 with one scale per row: scale = max|x| / M, q = x / scale.

    vector   3 T H                         magnitude, maximum, product
    bytes    x (16 bit) in; q (fp8) and scales (fp32) out

The row stays on the chip between the two passes.
Published: fewer FLOP (one per value), the same bytes.

Solutions: run(x [T, H], fp8) -> q [T, H], scale [T]; `fp8` names the encoding, `e4m3fn` or
`e4m3fnuz`. Rows of zeros have codes of 0 with any finite scale, or any numbers with a scale of 0.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element
from solscope.operators.suite_axes import ROW_SIZES
from solscope.operators.task import Draw, Inputs, Outputs
from solscope.operators.tasks.draws import activations, torch_dtype
from solscope.operators.tasks.fp8 import quantize
from solscope.operators.tasks.quantized import quantized_outputs
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


LEAST_SCALE = 1 / (448 * 512)
"""The least scale of vLLM's kernel (`min_scaling_factor`); others go on below it."""


@cost_model("tokens hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each value once in, once out."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Cost(
        flops={"vector.fp32": 3 * tokens * hidden},
        read_bytes={"activations": element(axes) * tokens * hidden},
        write_bytes={"activations": tokens * (hidden + 4)},
    )


@in_suite("atrex_007", ROW_SIZES)
def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"fp8_e4m3": tokens * (hidden + 1)},
        read_bytes=2 * tokens * hidden,
        write_bytes=tokens * (hidden + 4),
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Hidden states with row scales and outliers; `extreme` over all decades that kernels share."""
    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, hidden = axes["tokens"], axes["hidden"]
    x = activations(generator, tokens, hidden, dtype, draw.variant, smallest=LEAST_SCALE * 1e3)
    return {"x": x, "fp8": draw.fp8}


def reference(x: torch.Tensor, fp8: str) -> Outputs:
    """Scales in fp32, codes of the exact quotient."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        codes, scale = quantize(rows.double(), fp8, least_amax=1e-12)
        return {"q": codes, "scale": scale.squeeze(-1)}

    return by_rows(rowwise, x)


OUTPUTS = quantized_outputs("scale", floor=1e-14)
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",))

TITLE = "Quantization to fp8, a scale per token"
OPERATOR = Operator("fp8_dynamic_per_token_quant", TITLE, "quant", cost, published, TASK)
