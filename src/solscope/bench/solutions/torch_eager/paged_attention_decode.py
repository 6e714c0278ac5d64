"""Decode attention over a paged cache: blocks gathered into dense keys, then SDPA with a mask.

The query heads of one key head are the rows of one product.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

KEYS_AT_A_TIME = 1 << 20


def run(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence."""
    heads, size = v_cache.shape[1], v_cache.shape[3]
    used = block_tables[:, : (max_seq_len + size - 1) // size].long()
    position = torch.arange(max_seq_len, device=query.device)
    out = torch.empty_like(query)
    step = max(1, KEYS_AT_A_TIME // max(1, max_seq_len))
    for start in range(0, query.shape[0], step):
        some = slice(start, start + step)
        # To [n, Hk, keys, D]: block, then slot, count the keys.
        k = k_cache[used[some]].permute(0, 2, 1, 4, 3, 5).flatten(4).flatten(2, 3)
        v = v_cache[used[some]].permute(0, 2, 1, 4, 3).flatten(2, 3)
        seen = position < seq_lens[some, None]
        sums = scaled_dot_product_attention(
            torch.unflatten(query[some], 1, (heads, -1)),
            k[:, :, :max_seq_len],
            v[:, :, :max_seq_len],
            attn_mask=seen[:, None, None],
            scale=softmax_scale,
        ).flatten(1, 2)
        out[some] = torch.where(seq_lens[some, None, None] > 0, sums, 0.0)
    return out
