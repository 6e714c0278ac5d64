"""Decode attention on a latent cache (MLA): one row serves as key and value of all heads.

With a latent of L values (512) and R rotary ones (64):
score = scale q c over L + R values, out = Σ softmax(score) c[:L].

    tensor   2 Hq (2 L + R) Σ ctx          scores over L + R, outputs over L
    sfu      Hq Σ ctx                      exponentials
    bytes    q, the latent rows once, lengths (int32), out

Published: FLOP 1.27 times too many; scaling the keys is counted once per head.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element, tensor_pipe


def cost(axes: Axes) -> Cost:
    """The latent row is read once, although it is both key and value."""
    groups, heads = axes["contexts"], axes["q_heads"]
    latent, rope = axes["latent_dim"], axes["rope_dim"]
    sequences = sum(count for _, count in groups)
    keys = sum(ctx * count for ctx, count in groups)
    size = element(axes)
    return Cost(
        flops={tensor_pipe(axes): 2 * heads * (2 * latent + rope) * keys, "sfu": heads * keys},
        read_bytes={
            "activations": size * sequences * heads * (latent + rope),
            "cache": size * (latent + rope) * keys,
            "index": 4 * sequences,
        },
        write_bytes={"activations": size * sequences * heads * latent},
    )


def published(axes: Axes) -> Published:
    """As published, with Σ (ctx + 1) multiplications per head and key value."""
    groups, heads, latent = axes["contexts"], axes["q_heads"], axes["latent_dim"]
    row = latent + axes["rope_dim"]
    sequences = sum(count for _, count in groups)
    keys = sum(ctx * count for ctx, count in groups)
    return Published(
        flops={"bf16": heads * (2 * keys * (row + latent) + row * (keys + sequences))},
        read_bytes=2 * sequences * heads * row + 2 * keys * row + 4 * sequences,
        write_bytes=2 * sequences * heads * latent,
    )


OPERATOR = Operator(
    name="mla_decode_attention",
    title="Decode attention on a latent (MLA) cache",
    category="attention",
    axes=("contexts", "q_heads", "latent_dim", "rope_dim"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_018",
    published=published,
)
