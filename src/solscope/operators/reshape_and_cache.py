"""New keys and values written to their slots of a paged cache, in place.

    bytes    keys and values in, slots (int64) in, keys and values out

`valid_tokens` is the number of tokens whose slot is not negative (default: all).
Published: the whole cache is cloned, 1.5 to 16.5 times the bytes needed.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, blocks, element


def cost(axes: Axes) -> Cost:
    """Only the rows that are written."""
    tokens = axes["tokens"]
    width = axes["kv_heads"] * axes["head_dim"]
    moved = 2 * element(axes) * axes.get("valid_tokens", tokens) * width
    return Cost(
        read_bytes={"activations": moved, "index": 8 * tokens},
        write_bytes={"cache": moved},
    )


def published(axes: Axes) -> Published:
    """As published: a pool that just holds the tokens, copied whole."""
    tokens, size = axes["tokens"], axes["block_size"]
    width = axes["kv_heads"] * axes["head_dim"]
    pool = 4 * blocks(tokens, size) * size * width
    return Published(
        flops={"bf16": 0},
        read_bytes=4 * tokens * width + pool + 8 * tokens,
        write_bytes=pool,
    )


OPERATOR = Operator(
    name="reshape_and_cache",
    title="Keys and values into the paged cache",
    category="kv_cache",
    axes=("tokens", "kv_heads", "head_dim"),
    optional=("valid_tokens", "block_size", "dtype"),
    cost=cost,
    suite_id="atrex_026",
    published=published,
)
