"""The gated activation of an MLP: out = silu(gate) * up, gate and up side by side in one row.

    vector   5 T I                         SiLU 4, product 1
    sfu      2 T I                         exponential and reciprocal
    bytes    gate and up in, out

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each value once."""
    values, size = axes["tokens"] * axes["intermediate"], element(axes)
    return Cost(
        flops={"vector.fp32": 5 * values, "sfu": 2 * values},
        read_bytes={"activations": 2 * size * values},
        write_bytes={"activations": size * values},
    )


def published(axes: Axes) -> Published:
    """As published."""
    values = axes["tokens"] * axes["intermediate"]
    return Published(flops={"bf16": 5 * values}, read_bytes=4 * values, write_bytes=2 * values)


OPERATOR = Operator(
    name="silu_and_mul",
    title="SiLU and product",
    category="activation",
    axes=("tokens", "intermediate"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_028",
    published=published,
)
