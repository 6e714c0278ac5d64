"""Decode attention on a latent cache: scaled_dot_product_attention with the heads as queries.

All heads share one latent row as key and value, so they are the rows of one product.
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
    used = block_table[:, : (max_seq_len + size - 1) // size].long()
    position = torch.arange(max_seq_len, device=q.device)
    out = q.new_empty(*q.shape[:2], latent_dim)
    step = max(1, ROWS_AT_A_TIME // max(1, max_seq_len))
    for start in range(0, q.shape[0], step):
        some = slice(start, start + step)
        rows = kv_cache[used[some]].flatten(1, 3)[:, None, :max_seq_len]
        seen = position < seq_lens[some, None]
        sums = scaled_dot_product_attention(
            q[some, None],
            rows,
            rows[..., :latent_dim],
            attn_mask=seen[:, None, None],
            scale=softmax_scale,
        )[:, 0]
        out[some] = torch.where(seq_lens[some, None, None] > 0, sums, 0.0)
    return out
