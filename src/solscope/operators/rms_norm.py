"""RMS normalization of rows: out = x (mean(x²) + ε)^-½ w.

    vector   T (3 H + 1)                   square-add, two products; the mean
    sfu      T                             reciprocal root
    bytes    x, w, out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each row once in and out; it stays on the chip between the two passes."""
    tokens, hidden, size = axes["tokens"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * (3 * hidden + 1), "sfu": tokens},
        read_bytes={"weights": size * hidden, "activations": size * tokens * hidden},
        write_bytes={"activations": size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden = axes["tokens"], axes["hidden"]
    return Published(
        flops={"bf16": tokens * (3 * hidden + 1)},
        read_bytes=2 * tokens * hidden + 2 * hidden,
        write_bytes=2 * tokens * hidden,
    )


OPERATOR = Operator(
    name="rms_norm",
    title="RMS normalization",
    category="norm",
    axes=("tokens", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_027",
    published=published,
)
