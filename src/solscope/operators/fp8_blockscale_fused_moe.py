"""The experts of an MoE layer in fp8, with a scale per 1 x 128 and per 128 x 128 block.

The math is that of `fused_moe` on dequantized operands.

    tensor   6 T k H I   (fp8)             gate, up and down projection
    vector   T k (5 I + 2 H) + 6 T k H I / 128      activation, sum; promotion every block
    sfu      T k I                         exponential of SiLU
    bytes    x and weights in fp8, their scales in fp32, routing weights and ids, out in bf16

`active_experts` as in `fused_moe`: the fewest, k, unless given; `expected` is uniform routing.
Published: dequantizing all active weights counts as FLOP (up to 1.5 times), and the output as fp8,
which overflows and no model uses: the published bytes are too few (0.92 to 1.00).
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks
from solscope.operators.routing import active_experts, expected_experts, published_experts

BLOCK = 128


def _expert_bytes(axes: Axes) -> int:
    """Weights and scales of one expert."""
    hidden, inner = axes["hidden"], axes["intermediate"]
    return int(3 * hidden * inner + 12 * blocks(hidden, BLOCK) * blocks(inner, BLOCK))


def _cost(axes: Axes, experts: float) -> Cost:
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    slots = tokens * axes["top_k"]
    products = 6 * slots * hidden * inner
    return Cost(
        flops={
            "tensor.fp8": products,
            "vector.fp32": slots * (5 * inner + 2 * hidden) + products // BLOCK,
            "sfu": slots * inner,
        },
        read_bytes={
            "weights": experts * _expert_bytes(axes),
            "activations": tokens * hidden + 4 * tokens * blocks(hidden, BLOCK),
            "index": 8 * slots,
        },
        write_bytes={"activations": 2 * tokens * hidden},
    )


def cost(axes: Axes) -> Cost:
    """With the recorded number of active experts, else the fewest that routing allows."""
    return _cost(axes, active_experts(axes))


def expected(axes: Axes) -> Cost:
    """With the mean number of active experts under uniform routing."""
    return _cost(axes, expected_experts(axes))


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden, inner = axes["tokens"], axes["hidden"], axes["intermediate"]
    slots, experts = tokens * axes["top_k"], published_experts(axes)
    per_slot = 6 * hidden * inner + 5 * inner + 2 * hidden
    inputs = tokens * hidden + 4 * tokens * (hidden // BLOCK) + 8 * slots
    return Published(
        flops={"fp8_e4m3": slots * per_slot + experts * 3 * hidden * inner},
        read_bytes=inputs + experts * _expert_bytes(axes),
        write_bytes=tokens * hidden,
    )


OPERATOR = Operator(
    name="fp8_blockscale_fused_moe",
    title="Experts of an MoE layer, fp8 with block scales",
    category="moe",
    axes=("tokens", "hidden", "intermediate", "experts", "top_k"),
    optional=("active_experts",),
    cost=cost,
    suite_id="atrex_006",
    published=published,
    expected=expected,
)
