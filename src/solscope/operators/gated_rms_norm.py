"""RMS normalization with a gate: out = x (mean(x²) + ε)^-½ w silu(z), row by row.

    vector   R (8 H + 1)                   norm 3, SiLU 4, product 1; the mean
    sfu      R (H + 1)                     exponential per value, reciprocal root per row
    bytes    x, z, w, out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each row once."""
    rows, hidden, size = axes["rows"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": rows * (8 * hidden + 1), "sfu": rows * (hidden + 1)},
        read_bytes={"weights": size * hidden, "activations": 2 * size * rows * hidden},
        write_bytes={"activations": size * rows * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    rows, hidden = axes["rows"], axes["hidden"]
    return Published(
        flops={"bf16": rows * (8 * hidden + 1)},
        read_bytes=4 * rows * hidden + 2 * hidden,
        write_bytes=2 * rows * hidden,
    )


OPERATOR = Operator(
    name="gated_rms_norm",
    title="Gated RMS normalization",
    category="norm",
    axes=("rows", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_014",
    published=published,
)
