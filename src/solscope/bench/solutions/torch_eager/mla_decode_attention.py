"""Decode attention on a latent cache: scaled_dot_product_attention with the heads as queries.

All heads share one latent row as key and value, so they are the rows of one product. Where padding
to the longest sequence would be most of the work, the lengths are read back and sequences of like
length run together.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

ROWS_AT_A_TIME = 1 << 20


def run(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    latent_dim: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence."""
    size = kv_cache.shape[1]
    out = q.new_empty(*q.shape[:2], latent_dim)
    for some, length in batches(seq_lens, max_seq_len, kv_cache.shape[0] * size):
        used = block_table[some, : (length + size - 1) // size].long()
        rows = kv_cache[used].flatten(1, 3)[:, None, :length]
        lengths = seq_lens[some, None]
        seen = torch.arange(length, device=q.device) < lengths
        sums = scaled_dot_product_attention(
            q[some][:, None],
            rows,
            rows[..., :latent_dim],
            attn_mask=seen[:, None, None],
            scale=softmax_scale,
        )[:, 0]
        out[some] = torch.where(lengths[..., None] > 0, sums, 0.0)
    return out


def batches(
    seq_lens: torch.Tensor, longest: int, capacity: int
) -> list[tuple[slice | torch.Tensor, int]]:
    """Which sequences to run together, and the length that they are padded to."""
    count = seq_lens.shape[0]
    if count * longest <= 2 * capacity:
        step = max(1, ROWS_AT_A_TIME // max(1, longest))
        return [(slice(start, start + step), longest) for start in range(0, count, step)]
    groups: list[list[int]] = []
    lengths = seq_lens.tolist()
    for index in sorted(range(count), key=lambda index: -lengths[index]):
        first = lengths[groups[-1][0]] if groups else 0
        fits = groups and (len(groups[-1]) + 1) * first <= ROWS_AT_A_TIME
        if fits and lengths[index] > first // 2:
            groups[-1].append(index)
        else:
            groups.append([index])
    device = seq_lens.device
    return [(torch.tensor(group, device=device), lengths[group[0]]) for group in groups]
