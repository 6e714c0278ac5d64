"""Full (not causal) attention over packed sequences without a cache, as in vision encoders.

    tensor   4 H D Σ q s                   q k and p v
    sfu      H Σ q s                       one exponential per pair and head
    bytes    q, k, v and out once, two lists of n + 1 offsets (int32)

A head dimension of 72 is padded to 80, 96 or 128 by real kernels; the bound is not.
Published: the same.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element, tensor_pipe


def cost(axes: Axes) -> Cost:
    """Each of q, k, v and out once; every query sees every key of its sequence."""
    groups, heads, dim = axes["sequences"], axes["heads"], axes["head_dim"]
    pairs = sum(q * kv * count for q, kv, count in groups)
    queries = sum(q * count for q, _, count in groups)
    keys = sum(kv * count for _, kv, count in groups)
    row = element(axes) * heads * dim
    return Cost(
        flops={tensor_pipe(axes): 4 * heads * dim * pairs, "sfu": heads * pairs},
        read_bytes={
            "activations": row * (queries + 2 * keys),
            "index": 8 * (sum(count for _, _, count in groups) + 1),
        },
        write_bytes={"activations": row * queries},
    )


def published(axes: Axes) -> Published:
    """As published."""
    groups, width = axes["sequences"], axes["heads"] * axes["head_dim"]
    tokens = sum(s * count for _, s, count in groups)
    sequences = sum(count for _, _, count in groups)
    return Published(
        flops={"bf16": 4 * width * sum(s * s * count for _, s, count in groups)},
        read_bytes=6 * width * tokens + 8 * (sequences + 1),
        write_bytes=2 * width * tokens,
    )


OPERATOR = Operator(
    name="attention_forward",
    title="Full attention over packed sequences, without a cache",
    category="attention",
    axes=("sequences", "heads", "head_dim"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_001",
    published=published,
)
