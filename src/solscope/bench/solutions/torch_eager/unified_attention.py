"""Paged causal attention: blocks gathered into dense keys, then scaled_dot_product_attention.

Equal sequences, and decode where padding to the longest is affordable, need no look at the lengths;
otherwise they are read back once and sequences of equal lengths run together.
"""

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

KEYS_AT_A_TIME = 1 << 20


def run(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    sequences = block_table.shape[0]
    caches = (k_cache, v_cache)
    if q.shape[0] == sequences * max_seqlen_q:
        if sequences == 1 or max_seqlen_q == max_seqlen_k:
            batch = q.view(sequences, max_seqlen_q, *q.shape[1:])
            return causal(batch, *caches, block_table, max_seqlen_k, softmax_scale).reshape(q.shape)
        capacity = k_cache.shape[0] * k_cache.shape[1]
        if max_seqlen_q == 1 and sequences * max_seqlen_k <= 2 * capacity:
            return decode(q, *caches, seqused_k, block_table, max_seqlen_k, softmax_scale)
    out = torch.empty_like(q)
    for (queried, keys), members in equal_lengths(cu_seqlens_q, seqused_k).items():
        if not queried:
            continue
        which = torch.tensor(members, device=q.device)
        rows = cu_seqlens_q[which].long()[:, None] + torch.arange(queried, device=q.device)
        out[rows] = causal(q[rows], *caches, block_table[which], keys, softmax_scale)
    return out


def equal_lengths(
    cu_seqlens_q: torch.Tensor, seqused_k: torch.Tensor
) -> dict[tuple[int, int], list[int]]:
    """Sequences by their numbers of queries and keys."""
    found: dict[tuple[int, int], list[int]] = {}
    lengths = torch.stack([cu_seqlens_q.diff(), seqused_k], 1).tolist()
    for index, (queried, keys) in enumerate(lengths):
        found.setdefault((queried, keys), []).append(index)
    return found


def gather(cache: torch.Tensor, table: torch.Tensor, keys: int) -> torch.Tensor:
    """[n, Hk, keys, D] of the sequences of a table."""
    size = cache.shape[1]
    used = table[:, : (keys + size - 1) // size].long()
    return cache[used].flatten(1, 2)[:, :keys].transpose(1, 2)


def causal(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    keys: int,
    scale: float,
) -> torch.Tensor:
    """q [n, r, Hq, D] against sequences of equally many keys, the mask aligned at the end."""
    square = q.shape[1] == keys
    aligned = None if square or q.shape[1] == 1 else causal_lower_right(q.shape[1], keys)

    def attention(some: slice) -> torch.Tensor:
        return scaled_dot_product_attention(
            q[some].transpose(1, 2),
            gather(k_cache, table[some], keys),
            gather(v_cache, table[some], keys),
            attn_mask=aligned,
            is_causal=square and keys > 1,
            scale=scale,
            enable_gqa=q.shape[2] != k_cache.shape[2],
        ).transpose(1, 2)

    step = max(1, KEYS_AT_A_TIME // max(1, keys))
    if step >= q.shape[0]:
        return attention(slice(None))
    return torch.cat([attention(slice(at, at + step)) for at in range(0, q.shape[0], step)])


def decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    seqused_k: torch.Tensor,
    table: torch.Tensor,
    keys: int,
    scale: float,
) -> torch.Tensor:
    """One query per sequence: the query heads of one key head are the rows of one product."""
    heads = k_cache.shape[2]
    out = torch.empty_like(q)
    step = max(1, KEYS_AT_A_TIME // keys)
    position = torch.arange(keys, device=q.device)
    for start in range(0, q.shape[0], step):
        some = slice(start, start + step)
        seen = position < seqused_k[some, None]
        out[some] = scaled_dot_product_attention(
            torch.unflatten(q[some], 1, (heads, -1)),
            gather(k_cache, table[some], keys),
            gather(v_cache, table[some], keys),
            attn_mask=seen[:, None, None],
            scale=scale,
        ).flatten(1, 2)
    return out
