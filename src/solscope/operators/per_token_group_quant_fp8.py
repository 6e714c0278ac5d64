"""Quantization to fp8 with one scale per group of a row: scale = max|x| / M, q = x / scale.

    vector   3 T H                         magnitude, maximum, product
    bytes    x (16 bit) in; q (fp8) and T H/group scales (fp32) out

Published: fewer FLOP (one per value and group), the same bytes.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element


def cost(axes: Axes) -> Cost:
    """Each value once in, once out."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    scales = tokens * blocks(hidden, axes["group_size"])
    return Cost(
        flops={"vector.fp32": 3 * tokens * hidden},
        read_bytes={"activations": element(axes) * tokens * hidden},
        write_bytes={"activations": tokens * hidden + 4 * scales},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    groups = hidden // axes["group_size"]
    return Published(
        flops={"fp8_e4m3": tokens * (hidden + groups)},
        read_bytes=2 * tokens * hidden,
        write_bytes=tokens * (hidden + 4 * groups),
    )


OPERATOR = Operator(
    name="per_token_group_quant_fp8",
    title="Quantization to fp8, a scale per group of a token",
    category="quant",
    axes=("tokens", "hidden", "group_size"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_025",
    published=published,
)
