"""torch.nn.functional.rms_norm of the heads of q and of k."""

from __future__ import annotations

import torch


def run(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    eps: float,
) -> None:
    """Normalize q and k heads in place."""
    dim = q_weight.numel()
    heads = qkv.view(qkv.shape[0], -1, dim)
    q, k, _ = torch.split(heads, [q_heads, kv_heads, kv_heads], dim=-2)
    q.copy_(torch.nn.functional.rms_norm(q, (dim,), q_weight, eps))
    k.copy_(torch.nn.functional.rms_norm(k, (dim,), k_weight, eps))
