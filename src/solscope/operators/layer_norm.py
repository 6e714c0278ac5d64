"""Layer normalization of rows: out = (x - μ) (σ² + ε)^-½ w + b.

    vector   7 T H                         mean 1, center 1, square-add 2, scale 1, affine 2
    sfu      T                             reciprocal root
    bytes    x, w, b, out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each row once."""
    tokens, hidden, size = axes["tokens"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": 7 * tokens * hidden, "sfu": tokens},
        read_bytes={"weights": 2 * size * hidden, "activations": size * tokens * hidden},
        write_bytes={"activations": size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"bf16": 7 * tokens * hidden},
        read_bytes=2 * tokens * hidden + 4 * hidden,
        write_bytes=2 * tokens * hidden,
    )


OPERATOR = Operator(
    name="layer_norm",
    title="Layer normalization",
    category="norm",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_016",
    published=published,
)
