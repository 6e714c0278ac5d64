"""Rotary embedding with three position axes (time, height, width), in place.

Each of the R/2 frequencies takes its angle from one of the three axes.

    vector   3 T (Hq + Hk) R               two products and a sum per value
    bytes    q and k in and out, one cosine and one sine (fp32) per frequency and token

Published: the tables of all three axes are read, 1.10 times the bytes needed.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element


def cost(axes: Axes) -> Cost:
    """Per frequency one axis is needed, so a third of the tables."""
    tokens, rotary = axes["tokens"], axes["rotary_dim"]
    heads = axes["q_heads"] + axes["kv_heads"]
    moved = element(axes) * tokens * heads * axes["head_dim"]
    return Cost(
        flops={"vector.fp32": 3 * tokens * heads * rotary},
        read_bytes={"activations": moved, "index": 4 * tokens * rotary},
        write_bytes={"activations": moved},
    )


def published(axes: Axes) -> Published:
    """As published: three axes of two tables."""
    tokens, rotary = axes["tokens"], axes["rotary_dim"]
    heads = axes["q_heads"] + axes["kv_heads"]
    moved = 2 * tokens * heads * axes["head_dim"]
    return Published(
        flops={"bf16": 3 * tokens * heads * rotary},
        read_bytes=moved + 24 * tokens * (rotary // 2),
        write_bytes=moved,
    )


OPERATOR = Operator(
    name="mrope",
    title="Rotary embedding with three position axes",
    category="rope",
    axes=("tokens", "q_heads", "kv_heads", "head_dim", "rotary_dim"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_023",
    published=published,
)
