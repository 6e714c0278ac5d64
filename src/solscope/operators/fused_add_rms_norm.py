"""Residual addition and RMS normalization: r' = x + r; out = r' (mean(r'²) + ε)^-½ w.

    vector   T (4 H + 1)                   addition, square-add, two products; the mean
    sfu      T                             reciprocal root
    bytes    x, r, w in; out and r' out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Two tensors in, two out."""
    tokens, hidden, size = axes["tokens"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * (4 * hidden + 1), "sfu": tokens},
        read_bytes={"weights": size * hidden, "activations": 2 * size * tokens * hidden},
        write_bytes={"activations": 2 * size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"bf16": tokens * (4 * hidden + 1)},
        read_bytes=4 * tokens * hidden + 2 * hidden,
        write_bytes=4 * tokens * hidden,
    )


OPERATOR = Operator(
    name="fused_add_rms_norm",
    title="Residual addition and RMS normalization",
    category="norm",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_008",
    published=published,
)
