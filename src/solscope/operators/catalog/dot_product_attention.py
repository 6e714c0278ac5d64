"""Attention of dense tensors: out = softmax(q k / sqrt(D)) v, causal or not, prefill or decode.

    pairs  P = Sq Skv, or with a causal mask Σ min(r + 1, Skv) over the Sq rows
    tensor   2 B Hq (D + Dv) P             q k and p v
    sfu      B Hq P                        one exponential per pair and head
    bytes    q, k, v, mask and out once; with a causal mask only the first Sq keys

The causal mask is aligned at the start, which leaves the fewest pairs where Sq < Skv (kernels that
align it at the end do more). Without `causal` it is taken as causal, the smaller cost.
`v_dim` is the width of v (default: `head_dim`); `mask_bytes` the size of a mask (default 0).
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, element, matrix_pipe


def pairs(queries: int, keys: int, causal: bool) -> int:
    """Query-key pairs of one head that the mask leaves."""
    if not causal:
        return queries * keys
    ramp = min(queries, keys)
    return ramp * (ramp + 1) // 2 + (queries - ramp) * keys


def cost(axes: Axes) -> Cost:
    """Each of q, k, v and out once; no pair that the mask hides."""
    batch, queries, keys, dim = (axes[a] for a in ("batch", "queries", "keys", "head_dim"))
    heads, kv_heads, causal = axes["q_heads"], axes["kv_heads"], axes.get("causal", True)
    v_dim, size = axes.get("v_dim", dim), element(axes)
    work = batch * heads * pairs(queries, keys, causal)
    seen = min(queries, keys) if causal else keys
    return Cost(
        flops={matrix_pipe(axes): 2 * (dim + v_dim) * work, "sfu": work},
        read_bytes={
            "activations": size * batch * queries * heads * dim + axes.get("mask_bytes", 0),
            "cache": size * batch * seen * kv_heads * (dim + v_dim),
        },
        write_bytes={"activations": size * batch * queries * heads * v_dim},
    )


OPERATOR = Operator(
    name="dot_product_attention",
    title="Attention of dense tensors, prefill or decode",
    category="attention",
    axes=("batch", "queries", "keys", "q_heads", "kv_heads", "head_dim"),
    optional=("dtype", "causal", "v_dim", "mask_bytes"),
    cost=cost,
)
