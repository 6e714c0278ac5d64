"""The output of the gated delta rule, all chunks at once: the parallel half of its chunked form.

Within a chunk of c <= C = 64 rows, with the state h at its start:

    o_i = K^-½ ( e^G_i hᵀ q_i + Σ_{j<=i} e^(G_i - G_j) (q_i k_j) v_j )

    tensor   B [ Hv (2 T K V + V Σ c(c+1)) + Hq K Σ c(c+1) ]    Σ over chunks
    sfu      B Hv Σ c(c+1)/2               decay of each pair that the mask leaves
    bytes    q, k, v, h of every chunk, g (fp32), out

The products are triangular, and q k is shared by the v heads of one q head.
Published: padded rows, full squares and q k once per v head: 1.46 times the FLOP.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element


def cost(axes: Axes) -> Cost:
    """Valid rows and the lower triangle only."""
    batch, tokens, chunk = axes["sequences"], axes["tokens"], axes["chunk_size"]
    q_heads, heads = axes["q_heads"], axes["v_heads"]
    key, value, size = axes["key_dim"], axes["value_dim"], element(axes)
    whole, rest = divmod(tokens, chunk)
    pairs = batch * (whole * chunk * (chunk + 1) + rest * (rest + 1))
    rows = batch * tokens
    states = batch * blocks(tokens, chunk) * heads * key * value
    products = heads * (2 * rows * key * value + value * pairs) + q_heads * key * pairs
    values = size * rows * heads * value
    return Cost(
        flops={"tensor.bf16": products, "sfu": heads * pairs // 2},
        read_bytes={
            "activations": 2 * size * rows * q_heads * key + values + 4 * rows * heads,
            "state": size * states,
        },
        write_bytes={"activations": values},
    )


def published(axes: Axes) -> Published:
    """As published."""
    batch, tokens, chunk = axes["sequences"], axes["tokens"], axes["chunk_size"]
    heads, key, value = axes["v_heads"], axes["key_dim"], axes["value_dim"]
    chunks, rows = blocks(tokens, chunk), batch * tokens
    row = 2 * key * value + 2 * chunk * key + 2 * chunk * value + 3 * value + 2 * chunk
    inputs = 4 * rows * axes["q_heads"] * key + 2 * rows * heads * value + 4 * rows * heads
    return Published(
        flops={"bf16": batch * heads * chunks * chunk * row},
        read_bytes=inputs + 2 * batch * chunks * heads * key * value,
        write_bytes=2 * rows * heads * value,
    )


OPERATOR = Operator(
    name="chunk_delta_rule_output",
    title="Gated delta rule, chunked form: outputs",
    category="linear_attention",
    axes=("sequences", "tokens", "q_heads", "v_heads", "key_dim", "value_dim", "chunk_size"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_004",
    published=published,
)
