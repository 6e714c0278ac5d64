"""Paged causal attention over a batch of sequences: prefill, decode and both at once.

Row r of a sequence with q queries and s keys sees keys 0 ... s-q+r (the mask is aligned at the
end): out = softmax(q k / sqrt(D)) v. Keys and values lie in blocks of a paged cache.

    pairs  P = Σ q s - q (q-1)/2           query-key pairs that the mask leaves
    tensor   4 Hq D P                      q k and p v, 2 FLOP per multiply-add
    sfu      Hq P                          one exponential per pair and head
    bytes    q and out, K and V once per sequence, lengths, block table

`pairs` gives P where lengths are only known as means, or a window leaves fewer. Without
`block_size` the block table counts nothing. A cached prefix that sequences share must be read only
once; these axes cannot say so.
Published: the same, for q = s.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element, tensor_pipe


def _index_bytes(axes: Axes) -> int:
    """Two lists of lengths, n + 1 and n long, and the used part of the block table; int32."""
    groups, size = axes["sequences"], axes.get("block_size")
    sequences = sum(count for _, _, count in groups)
    table = sum(blocks(kv, size) * count for _, kv, count in groups) if size else 0
    return int(4 * (2 * sequences + 1) + 4 * table)


def cost(axes: Axes) -> Cost:
    """Each key and value once per sequence, only the pairs that the mask leaves."""
    groups, size = axes["sequences"], element(axes)
    heads, dim = axes["q_heads"], axes["head_dim"]
    alike = sum((q * kv - q * (q - 1) // 2) * count for q, kv, count in groups)
    pairs = axes.get("pairs", alike)
    queries = sum(q * count for q, _, count in groups)
    keys = sum(kv * count for _, kv, count in groups)
    rows = size * heads * dim * queries
    return Cost(
        flops={tensor_pipe(axes): 4 * heads * dim * pairs, "sfu": heads * pairs},
        read_bytes={
            "activations": rows,
            "cache": 2 * size * axes["kv_heads"] * dim * keys,
            "index": _index_bytes(axes),
        },
        write_bytes={"activations": rows},
    )


def published(axes: Axes) -> Published:
    """As published."""
    groups, heads, dim = axes["sequences"], axes["q_heads"], axes["head_dim"]
    tokens = sum(s * count for _, s, count in groups)
    triangle = sum(s * (s + 1) // 2 * count for _, s, count in groups)
    return Published(
        flops={"bf16": 4 * heads * dim * triangle},
        read_bytes=(2 * heads + 4 * axes["kv_heads"]) * dim * tokens + _index_bytes(axes),
        write_bytes=2 * heads * dim * tokens,
    )


OPERATOR = Operator(
    name="unified_attention",
    title="Paged causal attention, prefill and decode in one batch",
    category="attention",
    axes=("sequences", "q_heads", "kv_heads", "head_dim"),
    optional=("block_size", "pairs", "dtype"),
    cost=cost,
    suite_id="atrex_030",
    published=published,
)
