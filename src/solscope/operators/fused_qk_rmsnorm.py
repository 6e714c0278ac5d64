"""RMS normalization of the query and key heads of a fused qkv row, in place; v stays as it is.

    vector   T (Hq + Hk) (3 D + 1)         as rms_norm, per head
    sfu      T (Hq + Hk)                   reciprocal root
    bytes    q and k in and out, two weights of D

Published: v is copied too, 1.11 to 1.20 times the bytes needed.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Only the q and k heads move."""
    heads, dim, size = axes["q_heads"] + axes["kv_heads"], axes["head_dim"], element(axes)
    rows = axes["tokens"] * heads
    return Cost(
        flops={"vector.fp32": rows * (3 * dim + 1), "sfu": rows},
        read_bytes={"weights": 2 * size * dim, "activations": size * rows * dim},
        write_bytes={"activations": size * rows * dim},
    )


def published(axes: Axes) -> Published:
    """As published: the whole qkv row in and out."""
    tokens, dim = axes["tokens"], axes["head_dim"]
    rows = tokens * (axes["q_heads"] + axes["kv_heads"])
    row_bytes = 2 * tokens * (axes["q_heads"] + 2 * axes["kv_heads"]) * dim
    return Published(
        flops={"fp16": rows * (3 * dim + 1)},
        read_bytes=row_bytes + 4 * dim,
        write_bytes=row_bytes,
    )


OPERATOR = Operator(
    name="fused_qk_rmsnorm",
    title="RMS normalization of query and key heads",
    category="norm",
    axes=("tokens", "q_heads", "kv_heads", "head_dim"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_010",
    published=published,
)
