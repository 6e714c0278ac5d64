"""One query per sequence against a paged cache.

    tensor   4 Hq D Σ ctx                  q k and p v
    sfu      Hq Σ ctx                      exponentials
    bytes    q and out, K and V of the context once, used block table, lengths (int32)

Kernels without matrix instructions are slower than this, never faster.
Published: 16 spare blocks of the pool are counted too, up to 2.94 times the bytes needed, and
integer index arithmetic as FLOP.

In: query [n, Hq, D], k_cache [blocks, Hk, D/x, block_size, x] with x = 8 values (16 bytes), v_cache
[blocks, Hk, D, block_size], block_tables [n, most blocks] and seq_lens [n] in int32, max_seq_len,
softmax_scale. Out: out [n, Hq, D] in the dtype of query. A sequence without a key gives zeros.
Slots beyond a sequence's keys, and table entries beyond its blocks, hold stale data.
"""

# Also: kernels in attribution/rules.toml, shapes in suite/shipped/decode.json.

from __future__ import annotations

import re
from typing import Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import (
    LENGTHS_UNKNOWN,
    CallRule,
    OperatorAxes,
    Recorded,
    paged_attention,
    recorded_as,
)
from solscope.operators.cost import Axes, Cost, Published, blocks, element, tensor_pipe
from solscope.operators.suite_axes import PAGED_HEADS, with_context
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.attend import FLASH, attend
from solscope.operators.tasks.draws import normal, query_scale, torch_dtype
from solscope.operators.tasks.needles import needle_positions, queries, sink, value_offsets
from solscope.operators.tasks.paging import (
    STALE,
    STALE_KEY,
    pages,
    shuffled_lengths,
    similar,
    whole_blocks,
)
from solscope.operators.tasks.rows import row_task
from solscope.operators.tensors import UnclearError

_SPARE_BLOCKS = 16
"""Blocks that the published input maker allocates and nobody reads."""


@cost_model("contexts q_heads kv_heads head_dim block_size", optional="dtype")
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


@in_suite("atrex_024", with_context("num_seqs", f"{PAGED_HEADS} block_size dtype"))
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


PACK = 8
"""Values that lie together in the key cache: x in vLLM's layout, 16 bytes."""


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Blocks in random order, queries with needles; `empty` adds a sequence without a key."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    size, dim, heads = axes["block_size"], axes["head_dim"], axes["kv_heads"]
    groups = [*axes["contexts"]] + ([[0, 1]] if draw.variant == "empty" else [])
    (lengths,) = shuffled_lengths(generator, groups)
    paged = pages(generator, lengths, groups, size)
    pool = len(paged.used)
    k_cache = normal(generator, pool, heads, dim // PACK, size, PACK, dtype=dtype)
    v_cache = normal(generator, pool, heads, dim, size, dtype=dtype)
    moved = value_offsets(generator, (pool, size, heads, dim), dtype, draw.variant)
    v_cache += moved.permute(0, 2, 3, 1)
    sequence = torch.arange(len(lengths), device=draw.device)
    scale = query_scale(generator, draw.variant, dim**-0.5)
    filled = sequence[lengths > 0]
    k_cache[paged.table[filled, 0].long(), :, 0, 0, 0] += sink(scale)
    position = needle_positions(generator, lengths, lengths, axes["q_heads"])
    slot = paged.slot(sequence[:, None], position)
    head = torch.arange(axes["q_heads"], device=draw.device) // (axes["q_heads"] // heads)
    # Index tensors around a slice put what they index first: [n, Hq, D/x, x].
    needle = k_cache[slot // size, head, :, slot % size].flatten(2)
    q = queries(
        generator,
        needle,
        lengths,
        scale=scale,
        strength=dim,
        variant=draw.variant,
    )
    unused = paged.unused()[:, None, None]
    return {
        "query": q,
        "k_cache": k_cache.masked_fill_(unused[..., None], STALE_KEY),
        "v_cache": v_cache.masked_fill_(unused, STALE),
        "block_tables": paged.table,
        "seq_lens": lengths,
        "max_seq_len": max(ctx for ctx, _ in groups),
        "softmax_scale": scale,
    }


def reference(**inputs: Any) -> Outputs:
    """Some sequences at a time, their keys padded to the longest, in fp64."""
    import torch

    query, k_cache, v_cache = inputs["query"], inputs["k_cache"], inputs["v_cache"]
    block_tables, seq_lens = inputs["block_tables"], inputs["seq_lens"]
    softmax_scale = inputs["softmax_scale"]
    size, out = v_cache.shape[-1], torch.zeros(query.shape, device=query.device)
    for some, longest in similar(seq_lens):
        used = block_tables[some, : blocks(longest, size)].long()
        # [b, blocks, Hk, D/x, size, x] and [b, blocks, Hk, D, size] to [b, keys, Hk, D]
        k = k_cache[used].permute(0, 1, 4, 2, 3, 5).flatten(4, 5).flatten(1, 2)[:, :longest]
        v = v_cache[used].permute(0, 1, 4, 2, 3).flatten(1, 2)[:, :longest]
        visible = seq_lens[some, None]
        out[some] = attend(query[some, None], k, v, softmax_scale, visible)[:, 0]
    return {"out": out}


OUTPUTS = {"out": Output("query", FLASH)}
WHOLE = whole_blocks("k_cache v_cache", table="block_tables", lengths="seq_lens", size_dim=-1)
TASK = row_task(
    inputs, reference, OUTPUTS, rows="query block_tables seq_lens", whole=WHOLE, vary=("contexts",)
)


_LAYOUT = re.compile(
    r"paged_attention_ll4mi_QKV_\w+<.*KVCacheDataType\)\d+, (\d+), (\d+), \d+, \w+, (\d+),"
)
"""Block size, width and queries per head of the cache, in the name of aiter's kernel."""


def _ragged(call: Recorded) -> OperatorAxes:
    """Output, workspace, queries, then caches of [blocks, block size, heads, width].

    Caches may also have heads before the block size; the kernel says which it is.
    """
    name, axes = paged_attention(2, 3)(call)
    out, queries, keys, values = (call.tensor(index) for index in (0, 2, 3, 4))
    stated = _LAYOUT.search(call.kernel)
    if stated is None:
        raise UnclearError("its kernel does not state the layout of the cache")
    block, width, group = map(int, stated.groups())
    cache = block, axes["q_heads"] // group, width
    alike = (out.shape, values.shape) == (queries.shape, keys.shape)
    if not alike or keys.shape[1:] != cache or keys.type != queries.type:
        raise UnclearError("the recorded inputs are not those of its kernel")
    return name, axes


_RAGGED = "aiter::paged_attention_ragged sglang_profiler::attention_paged_attention_ragged"
RECORDED: dict[str, CallRule] = {
    **recorded_as("_C::paged_attention_v1 _C::paged_attention_v2", LENGTHS_UNKNOWN),
    **recorded_as(_RAGGED, _ragged),
}

TITLE = "Decode attention over a paged cache"
OPERATOR = Operator(
    "paged_attention_decode", TITLE, "attention", cost, published, TASK, recorded=RECORDED
)
