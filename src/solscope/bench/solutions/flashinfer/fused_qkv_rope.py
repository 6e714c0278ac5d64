"""Rotary embedding of FlashInfer from a table, in place on views of the fused row."""

import torch
from flashinfer.rope import apply_rope_with_cos_sin_cache_inplace


def run(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
) -> None:
    """Rotate q and k heads in place."""
    end = q_heads * head_dim
    q, k = qkv[:, :end], qkv[:, end : end + kv_heads * head_dim]
    apply_rope_with_cos_sin_cache_inplace(positions, q, k, head_dim, cos_sin_cache, is_neox=True)
