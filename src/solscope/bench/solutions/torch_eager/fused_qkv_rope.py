"""Rotation of q and k heads in fp32 by a table of cosines and sines."""

from __future__ import annotations

import torch


def run(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
) -> None:
    """Rotate q and k heads in place."""
    cos, sin = cos_sin_cache[positions.long()].unsqueeze(1).chunk(2, dim=-1)
    half = cos.shape[-1]
    heads = qkv.view(qkv.shape[0], -1, head_dim)[:, : q_heads + kv_heads]
    x, y = heads[..., :half], heads[..., half : 2 * half]
    wide_x, wide_y = x.float(), y.float()
    x.copy_(wide_x * cos - wide_y * sin)
    y.copy_(wide_y * cos + wide_x * sin)
