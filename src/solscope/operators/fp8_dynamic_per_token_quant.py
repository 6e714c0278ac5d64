"""Quantization to fp8 with one scale per row: scale = max|x| / M, q = x / scale.

    vector   3 T H                         magnitude, maximum, product
    bytes    x (16 bit) in; q (fp8) and scales (fp32) out

The row stays on the chip between the two passes.
Published: fewer FLOP (one per value), the same bytes.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each value once in, once out."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Cost(
        flops={"vector.fp32": 3 * tokens * hidden},
        read_bytes={"activations": element(axes) * tokens * hidden},
        write_bytes={"activations": tokens * (hidden + 4)},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"fp8_e4m3": tokens * (hidden + 1)},
        read_bytes=2 * tokens * hidden,
        write_bytes=tokens * (hidden + 4),
    )


OPERATOR = Operator(
    name="fp8_dynamic_per_token_quant",
    title="Quantization to fp8, a scale per token",
    category="quant",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_007",
    published=published,
)
