"""RMS norm of heads of FlashInfer, in place on the fused row: once for q, once for k."""

import torch
from flashinfer.norm import rmsnorm


def run(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    eps: float,
) -> None:
    """Normalize q and k heads in place."""
    heads = qkv.view(qkv.shape[0], -1, q_weight.numel())
    q, k = heads[:, :q_heads], heads[:, q_heads : q_heads + kv_heads]
    rmsnorm(q, q_weight, eps, out=q)
    rmsnorm(k, k_weight, eps, out=k)
