"""fp8 GEMM with a scale per 1 x 128 block of A and per 128 x 128 block of B.

out_ij = Σ_g sA[i,g] sB[j//128,g] Σ_{l in g} a_il b_jl, partial sums promoted to fp32 every block.

    tensor   2 m n k   (fp8)
    vector   2 m n k/128                   one scaled add per block and output
    bytes    A and B in fp8, both scales in fp32, out

`out_bytes` is the size of an output element: 2 (bf16, default) or 4 (fp32, as in the suite).
Published: with fp32 output and 3 vector operations per block (1.01 times the FLOP).

In: a [m, k] fp8 with a_scales [m, k/128], b [n, k] fp8 with b_scales [n/128, k/128] (rounded up),
scales in fp32, row by row, and out_dtype. Out: out [m, n] in out_dtype.
"""

# Also: kernels in attribution/rules.toml, shapes in suite/shipped/decode.json.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks
from solscope.operators.suite_axes import SuiteSizes, renamed
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import normal, row_scales
from solscope.operators.tasks.fp8 import decode_blocks, quantize_blocks
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch

BLOCK = 128


def _scale_bytes(axes: Axes) -> tuple[int, int]:
    """Bytes of the scales of A and of B."""
    groups = blocks(axes["k"], BLOCK)
    return 4 * axes["m"] * groups, 4 * blocks(axes["n"], BLOCK) * groups


@cost_model("m n k", optional="out_bytes")
def cost(axes: Axes) -> Cost:
    """Operands, scales and result once."""
    m, n, k = axes["m"], axes["n"], axes["k"]
    a_scales, b_scales = _scale_bytes(axes)
    return Cost(
        flops={"tensor.fp8": 2 * m * n * k, "vector.fp32": 2 * m * n * blocks(k, BLOCK)},
        read_bytes={"weights": n * k + b_scales, "activations": m * k + a_scales},
        write_bytes={"activations": axes.get("out_bytes", 2) * m * n},
    )


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """The suite writes fp32."""
    return {**renamed("m n k")(shape), "out_bytes": 4}


@in_suite("atrex_002", suite_axes)
def published(axes: Axes) -> Published:
    """As published."""
    m, n, k = axes["m"], axes["n"], axes["k"]
    a_scales, b_scales = _scale_bytes(axes)
    return Published(
        flops={"fp8_e4m3": m * n * (2 * k + 3 * (k // BLOCK) - 1)},
        read_bytes=m * k + n * k + a_scales + b_scales,
        write_bytes=4 * m * n,
    )


_DRAWN = 1 << 26
"""Values drawn at a time."""
_OUTLIER = 10.0


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Rows and blocks of unlike scale, outlier channels; `extreme`: one block of k weighs most.

    `varied` has the other type of result.
    """
    import torch

    generator, device = draw.generator(), draw.device
    m, n, k = axes["m"], axes["n"], axes["k"]
    channels = torch.ones(k, device=device)
    channels[torch.randint(k, (max(1, k // 100),), generator=generator, device=device)] = _OUTLIER
    codes, scales = [], []
    for rows in torch.split(torch.arange(m), max(1, _DRAWN // k)):
        values = normal(generator, len(rows), k, dtype=torch.bfloat16)
        quantized, scale = quantize_blocks(values.mul_(channels), (1, BLOCK), draw.fp8)
        codes.append(quantized.view(torch.uint8))
        scales.append(scale)
    a_scales = torch.cat(scales)
    a_scales *= row_scales(generator, m, "typical", spread=0.3)
    a_scales *= torch.exp(0.5 * torch.randn(a_scales.shape, generator=generator, device=device))
    if draw.variant == "extreme":
        a_scales[:, 0] *= a_scales.shape[1] ** 0.5  # or the result would shrink
        a_scales[:, 1:] *= 1e-3
    values = normal(generator, n, k, dtype=torch.bfloat16, std=0.5 * k**-0.5)
    b, b_scales = quantize_blocks(values, (BLOCK, BLOCK), draw.fp8)
    b_scales *= torch.exp(0.7 * torch.randn(b_scales.shape, generator=generator, device=device))
    wide = (axes.get("out_bytes", 2) == 4) != (draw.variant == "varied")
    return {
        "a": torch.cat(codes).view(b.dtype),
        "b": b,
        "a_scales": a_scales,
        "b_scales": b_scales,
        "out_dtype": "float32" if wide else "bfloat16",
    }


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out_dtype: str,
) -> Outputs:
    """The product of the dequantized matrices in fp64, some rows at a time."""
    import torch

    del out_dtype
    right = decode_blocks(b, b_scales, (BLOCK, BLOCK), torch.float64).T

    def rows(codes: torch.Tensor, scales: torch.Tensor) -> Outputs:
        left = decode_blocks(codes, scales, (1, BLOCK), torch.float64)
        return {"out": (left @ right).float()}

    return by_rows(rows, a, a_scales)


_WHY = (
    "products of 8-bit floats summed in fp32 every 128 (1e-3 on tensor cores that "
    "keep 14 bits between promotions), then rounded to bf16 (1.7e-3); operands "
    "dequantized to bf16 give 3.3e-3 in all, and pass"
)
_TOLERANCE = Tolerance(
    "close", atol=0.03, rtol=2e-2, rms=4e-3, row_rms=7e-3, matched=0.99, why=_WHY
)
OUTPUTS = {"out": Output("out_dtype", _TOLERANCE)}
TASK = row_task(
    inputs, reference, OUTPUTS, rows="a a_scales", vary=("m",), weights=("b", "b_scales")
)

TITLE = "fp8 GEMM with block scales"
OPERATOR = Operator("block_scaled_mm", TITLE, "gemm", cost, published, TASK)
