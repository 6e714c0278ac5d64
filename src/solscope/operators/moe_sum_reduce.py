"""The sum of the expert outputs of each token: out_t = f Σ_j x_tj.

    vector   T k H                         additions and the factor
    bytes    x [T, k, H] in, out [T, H]

Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Each value once."""
    tokens, top_k, hidden, size = axes["tokens"], axes["top_k"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * top_k * hidden},
        read_bytes={"activations": size * tokens * top_k * hidden},
        write_bytes={"activations": size * tokens * hidden},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, top_k, hidden = axes["tokens"], axes["top_k"], axes["hidden"]
    return Published(
        flops={"bf16": tokens * top_k * hidden},
        read_bytes=2 * tokens * top_k * hidden,
        write_bytes=2 * tokens * hidden,
    )


OPERATOR = Operator(
    name="moe_sum_reduce",
    title="Sum of expert outputs",
    category="moe",
    axes=("tokens", "top_k", "hidden"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_021",
    published=published,
)
