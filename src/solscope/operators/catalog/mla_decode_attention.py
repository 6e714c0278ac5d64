"""Decode attention on a latent cache (MLA): one row serves as key and value of all heads.

With a latent of L values (512) and R rotary ones (64):
score = scale q c over L + R values, out = Σ softmax(score) c[:L].

    tensor   2 Hq (2 L + R) Σ ctx          scores over L + R, outputs over L
    sfu      Hq Σ ctx                      exponentials
    bytes    q, the latent rows once, lengths and block table (int32), out

`block_size` is the number of rows per block of the cache: without it the bound counts no table, and
inputs have blocks of 64. The scale of deployed models is 192^-½ (128 values and 64 rotary ones
before the latent is absorbed), not (L + R)^-½ as in the published inputs.
Published: FLOP 1.27 times too many; scaling the keys is counted once per head.

In: q [n, Hq, L + R], kv_cache [blocks, block_size, 1, L + R], block_table [n, most blocks] and
seq_lens [n] in int32, max_seq_len, latent_dim, softmax_scale. Out: out [n, Hq, L]. Slots and table
entries beyond a sequence's rows hold stale data.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/attention.py, shapes in
# suite/shipped/decode.json.

from __future__ import annotations

from typing import Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import LENGTHS_UNKNOWN, CallRule
from solscope.operators.cost import Axes, Cost, Published, blocks, element, tensor_pipe
from solscope.operators.suite_axes import with_context
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.attend import FLASH, attend
from solscope.operators.tasks.draws import normal, query_scale, torch_dtype
from solscope.operators.tasks.needles import needle_positions, queries, value_offsets
from solscope.operators.tasks.paging import (
    STALE_KEY,
    pages,
    shuffled_lengths,
    similar,
    whole_blocks,
)
from solscope.operators.tasks.rows import row_task


@cost_model("contexts q_heads latent_dim rope_dim", optional="block_size dtype")
def cost(axes: Axes) -> Cost:
    """The latent row is read once, although it is both key and value."""
    groups, heads = axes["contexts"], axes["q_heads"]
    latent, rope = axes["latent_dim"], axes["rope_dim"]
    sequences = sum(count for _, count in groups)
    keys = sum(ctx * count for ctx, count in groups)
    size, block = element(axes), axes.get("block_size")
    table = sum(blocks(ctx, block) * count for ctx, count in groups) if block else 0
    return Cost(
        flops={tensor_pipe(axes): 2 * heads * (2 * latent + rope) * keys, "sfu": heads * keys},
        read_bytes={
            "activations": size * sequences * heads * (latent + rope),
            "cache": size * (latent + rope) * keys,
            "index": 4 * (sequences + table),
        },
        write_bytes={"activations": size * sequences * heads * latent},
    )


@in_suite(
    "atrex_018",
    with_context("batch_size", "q_heads=nhead latent_dim=kv_lora_rank rope_dim=qk_rope_head_dim"),
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


BLOCK = 64
"""Rows per block where the axes do not say."""
_SCALE = 192**-0.5
_ROTARY_STD = 2.0


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Latent rows as after their norm, rotary parts twice as large, queries with needles."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    latent, rope, size = axes["latent_dim"], axes["rope_dim"], axes.get("block_size", BLOCK)
    groups = [*axes["contexts"]] + ([[0, 1]] if draw.variant == "empty" else [])
    (lengths,) = shuffled_lengths(generator, groups)
    paged = pages(generator, lengths, groups, size)
    cache = normal(generator, len(paged.used), size, 1, latent + rope, dtype=dtype)
    # Weights of the norm from 0.3 to 2, log-uniform: their mean square is about 1.
    uniform = torch.rand(latent, generator=generator, device=draw.device)
    weight = torch.exp(uniform * 1.9 - 1.2)
    cache[..., :latent] *= weight.to(dtype)
    cache[..., latent:] *= _ROTARY_STD
    if draw.variant == "ties":
        cache += value_offsets(generator, cache.shape, dtype, draw.variant)
    else:
        cache[..., :latent] += 0.5 * normal(generator, latent, dtype=dtype)  # values have a mean
    scale = query_scale(generator, draw.variant, _SCALE)
    sequence = torch.arange(len(lengths), device=draw.device)
    position = needle_positions(generator, lengths, lengths, axes["q_heads"])
    slot = paged.slot(sequence[:, None], position)
    q = queries(
        generator,
        cache.view(-1, latent + rope)[slot],
        lengths,
        scale=scale,
        strength=latent + rope * _ROTARY_STD**2,
        variant=draw.variant,
    )
    return {
        "q": q,
        "kv_cache": cache.masked_fill_(paged.unused()[:, :, None, None], STALE_KEY),
        "block_table": paged.table,
        "seq_lens": lengths,
        "max_seq_len": max(ctx for ctx, _ in groups),
        "latent_dim": latent,
        "softmax_scale": scale,
    }


def reference(**inputs: Any) -> Outputs:
    """Some sequences at a time, their rows padded to the longest, in fp64."""
    import torch

    q, kv_cache, latent_dim = inputs["q"], inputs["kv_cache"], inputs["latent_dim"]
    block_table, seq_lens = inputs["block_table"], inputs["seq_lens"]
    softmax_scale = inputs["softmax_scale"]
    size, out = kv_cache.shape[1], torch.zeros(*q.shape[:2], latent_dim, device=q.device)
    for some, longest in similar(seq_lens):
        used = block_table[some, : blocks(longest, size)].long()
        rows = kv_cache[used].flatten(1, 2)[:, :longest]
        values, visible = rows[..., :latent_dim], seq_lens[some, None]
        out[some] = attend(q[some, None], rows, values, softmax_scale, visible)[:, 0]
    return {"out": out}


OUTPUTS = {"out": Output("q", FLASH)}
WHOLE = whole_blocks("kv_cache", table="block_table", lengths="seq_lens", size_dim=1)
TASK = row_task(
    inputs, reference, OUTPUTS, rows="q block_table seq_lens", whole=WHOLE, vary=("contexts",)
)


RECORDED: dict[str, CallRule] = {
    "vllm::unified_mla_attention_with_output": LENGTHS_UNKNOWN,
    "_C::sm100_cutlass_mla_decode": LENGTHS_UNKNOWN,
    "sgl_kernel::cutlass_mla_decode": LENGTHS_UNKNOWN,
}

TITLE = "Decode attention on a latent (MLA) cache"
OPERATOR = Operator(
    "mla_decode_attention", TITLE, "attention", cost, published, TASK, recorded=RECORDED
)
