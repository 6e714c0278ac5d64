"""The experts of an MoE layer: y_t = Σ_j p_tj W2[e] ( silu(W1g[e] x_t) * (W1u[e] x_t) ).

A token takes k different experts e, each with 3 H I weights.

    tensor   6 T k H I                     gate, up and down projection
    vector   T k (5 I + 2 H)               activation and product; weighted sum
    sfu      T k I                         exponential of SiLU
    bytes    x, weights of the active experts once, routing weights (fp32) and ids (int32), out

`active_experts` is the number of experts that at least one token takes. Without it the bound
counts the fewest that routing allows, k; `expected` counts E (1 - (1 - k/E)^T), uniform routing.
`out_bytes` is the size of an output element: 2 (bf16, default) or 4 (fp32, as in the suite).
Published: FLOP of one random draw in which a token may take an expert twice, and then pays once
(0.91 to 1.00 of the true work). The draw is the axis `drawn_pairs`: distinct token-expert pairs.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element, tensor_pipe
from solscope.operators.routing import active_experts, expected_experts, published_experts


def _cost(axes: Axes, experts: float) -> Cost:
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    slots, size = tokens * axes["top_k"], element(axes)
    return Cost(
        flops={
            tensor_pipe(axes): 6 * slots * hidden * inner,
            "vector.fp32": slots * (5 * inner + 2 * hidden),
            "sfu": slots * inner,
        },
        read_bytes={
            "weights": experts * 3 * size * hidden * inner,
            "activations": size * tokens * hidden,
            "index": 8 * slots,
        },
        write_bytes={"activations": axes.get("out_bytes", size) * tokens * hidden},
    )


def cost(axes: Axes) -> Cost:
    """With the recorded number of active experts, else the fewest that routing allows."""
    return _cost(axes, active_experts(axes))


def expected(axes: Axes) -> Cost:
    """With the mean number of active experts under uniform routing."""
    return _cost(axes, expected_experts(axes))


def published(axes: Axes) -> Published:
    """As published, for the draw whose distinct token-expert pairs are `drawn_pairs`."""
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    top_k, experts = axes["top_k"], published_experts(axes)
    per_pair = 6 * hidden * inner + 5 * inner + hidden
    masks = experts * tokens * (2 * top_k - 1)
    return Published(
        flops={"bf16": axes["drawn_pairs"] * per_pair + masks},
        read_bytes=2 * tokens * hidden + experts * 6 * hidden * inner + 8 * tokens * top_k,
        write_bytes=4 * tokens * hidden,
    )


OPERATOR = Operator(
    name="fused_moe",
    title="Experts of an MoE layer",
    category="moe",
    axes=("tokens", "hidden", "intermediate", "experts", "top_k"),
    optional=("active_experts", "drawn_pairs", "out_bytes", "dtype"),
    cost=cost,
    suite_id="atrex_009",
    published=published,
    expected=expected,
)
