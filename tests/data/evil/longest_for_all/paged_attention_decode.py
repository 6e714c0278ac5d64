"""Every sequence is taken for as long as the longest."""

import torch


def run(query, k_cache, v_cache, block_tables, seq_lens, max_seq_len, softmax_scale):
    size, share = v_cache.shape[-1], query.shape[1] // v_cache.shape[1]
    out = torch.zeros_like(query)
    for at in range(len(query)):
        used = block_tables[at, : (max_seq_len + size - 1) // size].long()
        k = k_cache[used].permute(0, 3, 1, 2, 4).flatten(3, 4).flatten(0, 1)[:max_seq_len].float()
        v = v_cache[used].permute(0, 3, 1, 2).flatten(0, 1)[:max_seq_len].float()
        k, v = (x.repeat_interleave(share, 1) for x in (k, v))
        weights = (torch.einsum("hd,shd->hs", query[at].float(), k) * softmax_scale).softmax(-1)
        out[at] = torch.einsum("hs,shd->hd", weights, v).to(query.dtype)
    return out
