"""The gated delta rule, token by token: a state of K x V values per head, kept in fp32.

    h <- e^γ h;  d = β (v - hᵀ k);  h <- h + k dᵀ;  o = K^-½ hᵀ q        per token and v head

    one token per sequence      vector   7 K V: decay, hᵀk, k dᵀ, hᵀq
    more tokens                 tensor   6 K V per token, the chunked form of the same recurrence,
                                whose work inside a chunk is left out; vector K V per chunk of 64
    sfu      4 per token and v head         exp, softplus, sigmoid, normalization
    bytes    q, k, v, a, b, out; A_log (fp32) and dt_bias; indices; touched state rows in and out

More than one token can be chunked onto the matrix pipe, so fp32 vector work is no bound there.
`states` is the number of distinct rows touched (default: one per sequence), `state_bytes` the size
of a value of the state in memory (default 4).
Published: all rows of the pool count, touched or not: up to 1.99 times the bytes.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element

CHUNK = 64
"""Tokens per chunk in every deployed chunked kernel."""


def _flops(axes: Axes) -> dict[str, float]:
    batch, tokens, heads = axes["sequences"], axes["tokens"], axes["v_heads"]
    state = axes["key_dim"] * axes["value_dim"]
    sfu = 4 * batch * tokens * heads
    if tokens == 1:
        return {"vector.fp32": 7 * batch * heads * state, "sfu": sfu}
    return {
        "tensor.bf16": 6 * batch * tokens * heads * state,
        "vector.fp32": batch * heads * state * blocks(tokens, CHUNK),
        "sfu": sfu,
    }


def cost(axes: Axes) -> Cost:
    """Touched state rows only; the chunked form where a sequence has several tokens."""
    batch, heads, size = axes["sequences"], axes["v_heads"], element(axes)
    rows = batch * axes["tokens"]
    queries = 2 * size * rows * axes["q_heads"] * axes["key_dim"]
    values = size * rows * heads * axes["value_dim"]
    values_kept = axes.get("states", batch) * heads * axes["key_dim"] * axes["value_dim"]
    state = axes.get("state_bytes", 4) * values_kept
    return Cost(
        flops=_flops(axes),
        read_bytes={
            "weights": (4 + size) * heads,
            "activations": queries + values + 2 * size * rows * heads,
            "index": 4 * batch,
            "state": state,
        },
        write_bytes={"activations": values, "state": state},
        serial_steps=blocks(axes["tokens"], CHUNK),
    )


def published(axes: Axes) -> Published:
    """As published: the whole pool of states in and out."""
    batch, heads = axes["sequences"], axes["v_heads"]
    rows, key, value = batch * axes["tokens"], axes["key_dim"], axes["value_dim"]
    pool = 4 * heads * key * value * axes["pool"]
    inputs = 4 * rows * axes["q_heads"] * key + 2 * rows * heads * value + 4 * rows * heads
    return Published(
        flops={"bf16": rows * heads * (7 * key * value + 3 * key + 2)},
        read_bytes=inputs + 6 * heads + 4 * batch + pool,
        write_bytes=2 * rows * heads * value + pool,
    )


OPERATOR = Operator(
    name="gated_delta_rule_update",
    title="Gated delta rule, recurrent form (decode)",
    category="linear_attention",
    axes=("sequences", "tokens", "q_heads", "v_heads", "key_dim", "value_dim"),
    optional=("states", "state_bytes", "pool", "dtype"),
    cost=cost,
    suite_id="atrex_013",
    published=published,
)
