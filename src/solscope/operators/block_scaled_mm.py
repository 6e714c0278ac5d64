"""fp8 GEMM with a scale per 1 x 128 block of A and per 128 x 128 block of B.

out_ij = Σ_g sA[i,g] sB[j//128,g] Σ_{l in g} a_il b_jl, partial sums promoted to fp32 every block.

    tensor   2 m n k   (fp8)
    vector   2 m n k/128                   one scaled add per block and output
    bytes    A and B in fp8, both scales in fp32, out

`out_bytes` is the size of an output element: 2 (bf16, default) or 4 (fp32, as in the suite).
Published: with fp32 output and 3 vector operations per block (1.01 times the FLOP).
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks

BLOCK = 128


def _scale_bytes(axes: Axes) -> tuple[int, int]:
    """Bytes of the scales of A and of B."""
    groups = blocks(axes["k"], BLOCK)
    return 4 * axes["m"] * groups, 4 * blocks(axes["n"], BLOCK) * groups


def cost(axes: Axes) -> Cost:
    """Operands, scales and result once."""
    m, n, k = axes["m"], axes["n"], axes["k"]
    a_scales, b_scales = _scale_bytes(axes)
    return Cost(
        flops={"tensor.fp8": 2 * m * n * k, "vector.fp32": 2 * m * n * blocks(k, BLOCK)},
        read_bytes={"weights": n * k + b_scales, "activations": m * k + a_scales},
        write_bytes={"activations": axes.get("out_bytes", 2) * m * n},
    )


def published(axes: Axes) -> Published:
    """As published."""
    m, n, k = axes["m"], axes["n"], axes["k"]
    a_scales, b_scales = _scale_bytes(axes)
    return Published(
        flops={"fp8_e4m3": m * n * (2 * k + 3 * (k // BLOCK) - 1)},
        read_bytes=m * k + n * k + a_scales + b_scales,
        write_bytes=4 * m * n,
    )


OPERATOR = Operator(
    name="block_scaled_mm",
    title="fp8 GEMM with block scales",
    category="gemm",
    axes=("m", "n", "k"),
    optional=("out_bytes",),
    cost=cost,
    suite_id="atrex_002",
    published=published,
)
