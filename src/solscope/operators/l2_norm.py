"""Rows scaled to unit length: out = x (Σ x² + ε)^-½.

    vector   3 T H                         square-add and product
    sfu      T                             reciprocal root
    bytes    x, out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each row once."""
    tokens, hidden, size = axes["tokens"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": 3 * tokens * hidden, "sfu": tokens},
        read_bytes={"activations": size * tokens * hidden},
        write_bytes={"activations": size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"bf16": 3 * tokens * hidden},
        read_bytes=2 * tokens * hidden,
        write_bytes=2 * tokens * hidden,
    )


OPERATOR = Operator(
    name="l2_norm",
    title="L2 normalization",
    category="norm",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_015",
    published=published,
)
