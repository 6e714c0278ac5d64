"""Rotation of q and k heads in one launch, in place on the fused row."""

import torch
from _rotate import rotate


def run(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
) -> None:
    """Rotate q and k heads in place."""
    rotary = cos_sin_cache.shape[1]
    rotate(
        qkv,
        q_heads + kv_heads,
        head_dim,
        cos_sin_cache,
        cos_sin_cache[:, rotary // 2 :],
        half=rotary // 2,
        table_row=rotary,
        positions=positions,
    )
