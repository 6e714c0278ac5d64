"""Residual addition, RMS normalization and quantization to fp8 with one scale per row.

    vector   7 T H                         addition 1, norm 3, quantization 3
    sfu      T                             reciprocal root
    bytes    x, residual, w in; q (fp8), scale (fp32) and residual out

Published: fewer FLOP (5 per value), the same bytes.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Two rows in, one and a half out."""
    tokens, hidden, size = axes["tokens"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": 7 * tokens * hidden, "sfu": tokens},
        read_bytes={"weights": size * hidden, "activations": 2 * size * tokens * hidden},
        write_bytes={"activations": tokens * (hidden + 4) + size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"fp8_e4m3": tokens * (5 * hidden + 2)},
        read_bytes=4 * tokens * hidden + 2 * hidden,
        write_bytes=tokens * (3 * hidden + 4),
    )


OPERATOR = Operator(
    name="fused_rmsnorm_quant",
    title="Residual addition, RMS normalization and quantization to fp8",
    category="norm",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_012",
    published=published,
)
