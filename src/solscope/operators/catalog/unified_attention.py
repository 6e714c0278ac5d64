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

In: q [T, Hq, D], k_cache and v_cache [blocks, block_size, Hk, D], cu_seqlens_q [n + 1], seqused_k
[n] and block_table [n, most blocks] in int32, max_seqlen_q, max_seqlen_k, softmax_scale. Out: out
[T, Hq, D]. Entries of the table and slots of the cache beyond a sequence's keys hold stale data.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/attention.py, shapes in
# suite/shipped/decode.json.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import LENGTHS_UNKNOWN, CallRule, paged_attention
from solscope.operators.cost import Axes, Cost, Published, blocks, element, tensor_pipe
from solscope.operators.suite_axes import PAGED_HEADS, with_sequences
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task
from solscope.operators.tasks.attend import FLASH, attend
from solscope.operators.tasks.draws import normal, query_scale, torch_dtype
from solscope.operators.tasks.needles import needle_positions, queries, sink, value_offsets
from solscope.operators.tasks.paging import (
    BATCH_KEYS,
    STALE,
    STALE_KEY,
    offsets,
    pages,
    shuffled_lengths,
    whole_blocks,
)

if TYPE_CHECKING:
    import torch


def _index_bytes(axes: Axes) -> int:
    """Two lists of lengths, n + 1 and n long, and the used part of the block table; int32."""
    groups, size = axes["sequences"], axes.get("block_size")
    sequences = sum(count for _, _, count in groups)
    table = sum(blocks(kv, size) * count for _, kv, count in groups) if size else 0
    return int(4 * (2 * sequences + 1) + 4 * table)


@cost_model("sequences q_heads kv_heads head_dim", optional="block_size pairs dtype")
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


@in_suite(
    "atrex_030",
    with_sequences(f"{PAGED_HEADS} block_size"),
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


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """A paged cache and queries with needles; `empty` adds sequences without a query."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    size, dim = axes["block_size"], axes["head_dim"]
    heads, key_heads = axes["q_heads"], axes["kv_heads"]
    groups = [*axes["sequences"]]
    if draw.variant == "empty":
        groups += [[0, 0, 1], [0, size + 3, 1]]
    queried, keys = shuffled_lengths(generator, groups)
    paged = pages(generator, keys, [(s, count) for _, s, count in groups], size)
    shape = (*paged.unused().shape, key_heads, dim)
    k_cache, v_cache = (normal(generator, *shape, dtype=dtype) for _ in range(2))
    v_cache += value_offsets(generator, shape, dtype, draw.variant)
    scale = query_scale(generator, draw.variant, dim**-0.5)
    starts, flat = offsets(queried), k_cache.view(-1, key_heads, dim)
    sequences = torch.arange(len(keys), device=draw.device)
    filled = sequences[keys > 0]
    first = paged.slot(filled, torch.zeros_like(filled))
    flat[first, :, 0] += sink(scale)
    tokens = sum(q * count for q, _, count in groups)
    sequence = torch.repeat_interleave(sequences, queried.long(), output_size=tokens)
    row = torch.arange(tokens, device=draw.device) - starts[sequence]
    visible = keys[sequence] - queried[sequence] + row + 1
    position = needle_positions(generator, visible, keys[sequence], heads)
    share = heads // key_heads
    needle = flat[
        paged.slot(sequence[:, None], position), torch.arange(heads, device=draw.device) // share
    ]
    unused = paged.unused()[:, :, None, None]
    q = queries(
        generator,
        needle,
        visible,
        scale=scale,
        strength=dim,
        variant=draw.variant,
    )
    return {
        "q": q,
        "k_cache": k_cache.masked_fill_(unused, STALE_KEY),
        "v_cache": v_cache.masked_fill_(unused, STALE),
        "cu_seqlens_q": starts,
        "seqused_k": keys,
        "block_table": paged.table,
        "max_seqlen_q": max(q for q, _, _ in groups),
        "max_seqlen_k": max(s for _, s, _ in groups),
        "softmax_scale": scale,
    }


def reference(**inputs: Any) -> Outputs:
    """Sequences of equal lengths together, in fp64."""
    import torch

    q, k_cache, v_cache = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    cu_seqlens_q, seqused_k = inputs["cu_seqlens_q"], inputs["seqused_k"]
    block_table, softmax_scale = inputs["block_table"], inputs["softmax_scale"]
    size = k_cache.shape[1]
    out = torch.zeros(q.shape, device=q.device)
    lengths = torch.stack([cu_seqlens_q.diff(), seqused_k], 1)
    for queried, keys in torch.unique(lengths, dim=0).tolist():
        members = (lengths == lengths.new_tensor([queried, keys])).all(1).nonzero()[:, 0]
        row = torch.arange(queried, device=q.device)
        # A slice of the members at a time: their keys as one batch must fit.
        for some in torch.split(members, max(1, BATCH_KEYS // max(1, keys))):
            rows = cu_seqlens_q[some].long()[:, None] + row
            used = block_table[some, : blocks(keys, size)].long()
            k, v = (cache[used].flatten(1, 2)[:, :keys] for cache in (k_cache, v_cache))
            visible = (keys - queried + row + 1).expand(len(some), -1)
            out[rows] = attend(q[rows], k, v, softmax_scale, visible)
    return {"out": out}


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The outputs of some query tokens, sequence by sequence."""
    import torch

    q, starts, keys = inputs["q"], inputs["cu_seqlens_q"].long(), inputs["seqused_k"]
    size = inputs["k_cache"].shape[1]
    sequence = torch.searchsorted(starts, rows, right=True) - 1
    visible = (keys[sequence] - (starts[sequence + 1] - rows) + 1).long()
    out = torch.zeros(len(rows), *q.shape[1:], device=q.device)
    for index in torch.unique(sequence).tolist():
        mine = (sequence == index).nonzero()[:, 0]
        length = int(keys[index])
        used = inputs["block_table"][index, : blocks(length, size)].long()
        k, v = (inputs[name][used].flatten(0, 1)[:length] for name in ("k_cache", "v_cache"))
        picked = q[rows[mine]][None]
        scale = inputs["softmax_scale"]
        out[mine] = attend(picked, k[None], v[None], scale, visible[mine][None])[0]
    return {"out": out}


OUTPUTS = {"out": Output("q", FLASH)}
WHOLE = whole_blocks("k_cache v_cache", table="block_table", lengths="seqused_k", size_dim=1)
TASK = Task(inputs, reference, OUTPUTS, sampled=sampled, whole=WHOLE, vary=("sequences",))


RECORDED: dict[str, CallRule] = {
    "vllm::unified_attention_with_output": paged_attention(0, 1),
    "aiter::mha_batch_prefill": LENGTHS_UNKNOWN,
}

TITLE = "Paged causal attention, prefill and decode in one batch"
OPERATOR = Operator(
    "unified_attention", TITLE, "attention", cost, published, TASK, recorded=RECORDED
)
