"""The state of the gated delta rule, chunk by chunk: the serial half of its chunked form.

Per chunk of C = 64 tokens, with the state h (K x V per v head, fp32) at its start:

    x = u - w h;  v_new = x;  h <- e^G h + Σ k (x e^(G_last - G))ᵀ

    tensor   4 B T Hv K V                  w h and k xᵀ
    vector   B Hv (2 T V + n K V)          u - w h, decay of x; decay of h once per chunk, n chunks
    bytes    k, w, u, g (fp32), state row in; h of every chunk, v_new, state row out; indices
    serial   n dependent chunks

`states` is the number of distinct rows touched (default: one per sequence).
Published: the same bytes; a little more FLOP (1.01).
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element


def _sizes(axes: Axes) -> tuple[int, int, int, int, int]:
    """Rows, heads, K, V, chunks."""
    rows = axes["sequences"] * axes["tokens"]
    chunks = axes["sequences"] * blocks(axes["tokens"], axes["chunk_size"])
    return rows, axes["v_heads"], axes["key_dim"], axes["value_dim"], chunks


def cost(axes: Axes) -> Cost:
    """Two products per chunk; touched state rows only."""
    rows, heads, key, value, chunks = _sizes(axes)
    size = element(axes)
    state = 4 * axes.get("states", axes["sequences"]) * heads * key * value
    inputs = size * rows * (axes["k_heads"] * key + heads * (key + value)) + 4 * rows * heads
    return Cost(
        flops={
            "tensor.bf16": 4 * rows * heads * key * value,
            "vector.fp32": heads * (2 * rows * value + chunks * key * value),
        },
        read_bytes={"activations": inputs, "state": state, "index": 4 * axes["sequences"]},
        write_bytes={
            "activations": size * heads * value * (chunks * key + rows),
            "state": state,
        },
        serial_steps=blocks(axes["tokens"], axes["chunk_size"]),
    )


def published(axes: Axes) -> Published:
    """As published."""
    rows, heads, key, value, chunks = _sizes(axes)
    batch = axes["sequences"]
    state = 4 * min(batch, axes["pool"]) * heads * key * value
    inputs = 2 * rows * axes["k_heads"] * key + 2 * rows * heads * (key + value) + 4 * rows * heads
    work = rows * (4 * key * value + 2 * value + 1) + chunks * 2 * key * value
    return Published(
        flops={"bf16": heads * work},
        read_bytes=inputs + state + 4 * batch,
        write_bytes=2 * chunks * heads * key * value + 2 * rows * heads * value + state,
    )


OPERATOR = Operator(
    name="chunk_gated_delta_rule_state",
    title="Gated delta rule, chunked form: states",
    category="linear_attention",
    axes=("sequences", "tokens", "k_heads", "v_heads", "key_dim", "value_dim", "chunk_size"),
    optional=("states", "pool", "dtype"),
    cost=cost,
    suite_id="atrex_005",
    published=published,
)
