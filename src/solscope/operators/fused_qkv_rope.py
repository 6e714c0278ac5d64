"""Rotary position embedding of the query and key heads of a fused qkv row, in place.

Pairs (i, i + R/2) of the first R of D values turn by pos · base^(-2i/R).

    vector   3 T (Hq + Hk) R               two products and a sum per value
    sfu      T R                           sine and cosine of R/2 angles per token
    bytes    q and k in and out, positions (int32)

Published: v is copied too, 1.11 to 1.20 times the bytes needed.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Only the q and k heads move; angles are computed, not read."""
    tokens, rotary = axes["tokens"], axes["rotary_dim"]
    heads = axes["q_heads"] + axes["kv_heads"]
    moved = element(axes) * tokens * heads * axes["head_dim"]
    return Cost(
        flops={"vector.fp32": 3 * tokens * heads * rotary, "sfu": tokens * rotary},
        read_bytes={"activations": moved, "index": 4 * tokens},
        write_bytes={"activations": moved},
    )


def published(axes: Axes) -> Published:
    """As published: the whole qkv row in and out, booked as fp16 for bf16 shapes too."""
    tokens, dim = axes["tokens"], axes["head_dim"]
    heads, kv_heads = axes["q_heads"], axes["kv_heads"]
    row_bytes = 2 * tokens * (heads + 2 * kv_heads) * dim
    return Published(
        flops={"fp16": 3 * tokens * (heads + kv_heads) * dim + 3 * tokens * dim // 2},
        read_bytes=row_bytes + 4 * tokens,
        write_bytes=row_bytes,
    )


OPERATOR = Operator(
    name="fused_qkv_rope",
    title="Rotary embedding of query and key heads",
    category="rope",
    axes=("tokens", "q_heads", "kv_heads", "head_dim", "rotary_dim"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_011",
    published=published,
)
