"""Decode attention over a paged cache: blocks gathered into dense keys, then SDPA with a mask.

The query heads of one key head are the rows of one product. Where padding to the longest sequence
would be most of the work, the lengths are read back and sequences of like length run together.
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
    out = torch.empty_like(query)
    for some, keys in batches(seq_lens, max_seq_len, v_cache.shape[0] * size):
        used = block_tables[some, : (keys + size - 1) // size].long()
        # To [n, Hk, keys, D]: block, then slot, count the keys.
        k = k_cache[used].permute(0, 2, 1, 4, 3, 5).flatten(4).flatten(2, 3)
        v = v_cache[used].permute(0, 2, 1, 4, 3).flatten(2, 3)
        lengths = seq_lens[some, None]
        seen = torch.arange(keys, device=query.device) < lengths
        sums = scaled_dot_product_attention(
            torch.unflatten(query[some], 1, (heads, -1)),
            k[:, :, :keys],
            v[:, :, :keys],
            attn_mask=seen[:, None, None],
            scale=softmax_scale,
        ).flatten(1, 2)
        out[some] = torch.where(lengths[..., None] > 0, sums, 0.0)
    return out


def batches(
    seq_lens: torch.Tensor, longest: int, capacity: int
) -> list[tuple[slice | torch.Tensor, int]]:
    """Which sequences to run together, and the length that they are padded to."""
    count = seq_lens.shape[0]
    if count * longest <= 2 * capacity:
        step = max(1, KEYS_AT_A_TIME // max(1, longest))
        return [(slice(start, start + step), longest) for start in range(0, count, step)]
    groups: list[list[int]] = []
    lengths = seq_lens.tolist()
    for index in sorted(range(count), key=lambda index: -lengths[index]):
        first = lengths[groups[-1][0]] if groups else 0
        fits = groups and (len(groups[-1]) + 1) * first <= KEYS_AT_A_TIME
        if fits and lengths[index] > first // 2:
            groups[-1].append(index)
        else:
            groups.append([index])
    device = seq_lens.device
    return [(torch.tensor(group, device=device), lengths[group[0]]) for group in groups]
