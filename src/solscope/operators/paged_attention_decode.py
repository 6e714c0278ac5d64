"""One query per sequence against a paged cache.

    tensor   4 Hq D Σ ctx                  q k and p v
    sfu      Hq Σ ctx                      exponentials
    bytes    q and out, K and V of the context once, used block table, lengths (int32)

Kernels without matrix instructions are slower than this, never faster.
Published: 16 spare blocks of the pool are counted too, up to 2.94 times the bytes needed, and
integer index arithmetic as FLOP.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element, tensor_pipe

_SPARE_BLOCKS = 16
"""Blocks that the published input maker allocates and nobody reads."""


def cost(axes: Axes) -> Cost:
    """Only the context is read, not the pool around it."""
    groups, heads, dim = axes["contexts"], axes["q_heads"], axes["head_dim"]
    sequences = sum(count for _, count in groups)
    keys = sum(ctx * count for ctx, count in groups)
    table = sum(blocks(ctx, axes["block_size"]) * count for ctx, count in groups)
    rows = element(axes) * sequences * heads * dim
    return Cost(
        flops={tensor_pipe(axes): 4 * heads * dim * keys, "sfu": heads * keys},
        read_bytes={
            "activations": rows,
            "cache": 2 * element(axes) * axes["kv_heads"] * dim * keys,
            "index": 4 * table + 4 * sequences,
        },
        write_bytes={"activations": rows},
    )


def published(axes: Axes) -> Published:
    """As published: the pool with its spare blocks, booked as bf16 for fp16 shapes too."""
    groups, heads, dim = axes["contexts"], axes["q_heads"], axes["head_dim"]
    sequences = sum(count for _, count in groups)
    keys = sum(ctx * count for ctx, count in groups)
    size = axes["block_size"]
    used = sum(blocks(ctx, size) * count for ctx, count in groups)
    pool = 4 * (used + _SPARE_BLOCKS) * size * axes["kv_heads"] * dim
    return Published(
        flops={"bf16": 4 * heads * dim * keys + 2 * keys},
        read_bytes=2 * sequences * heads * dim + pool + 4 * used + 4 * sequences,
        write_bytes=2 * sequences * heads * dim,
    )


OPERATOR = Operator(
    name="paged_attention_decode",
    title="Decode attention over a paged cache",
    category="attention",
    axes=("contexts", "q_heads", "kv_heads", "head_dim", "block_size"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_024",
    published=published,
)
