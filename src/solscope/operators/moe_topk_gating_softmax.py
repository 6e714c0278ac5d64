"""The router of an MoE layer: softmax over E logits per token, then the k largest.

    vector   T (5 E - 1)                   softmax; at least one compare per logit
    sfu      T E                           exponentials
    bytes    logits (fp32) in; k weights (fp32) and ids (int32) out

Published: without the compares, the same bytes.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published


def cost(axes: Axes) -> Cost:
    """Each logit once."""
    tokens, experts, top_k = axes["tokens"], axes["experts"], axes["top_k"]
    return Cost(
        flops={"vector.fp32": tokens * (5 * experts - 1), "sfu": tokens * experts},
        read_bytes={"activations": 4 * tokens * experts},
        write_bytes={"activations": 4 * tokens * top_k, "index": 4 * tokens * top_k},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, experts = axes["tokens"], axes["experts"]
    return Published(
        flops={"fp32": tokens * (4 * experts - 1)},
        read_bytes=4 * tokens * experts,
        write_bytes=8 * tokens * axes["top_k"],
    )


OPERATOR = Operator(
    name="moe_topk_gating_softmax",
    title="MoE router: softmax and top-k",
    category="moe",
    axes=("tokens", "experts", "top_k"),
    cost=cost,
    suite_id="atrex_022",
    published=published,
)
