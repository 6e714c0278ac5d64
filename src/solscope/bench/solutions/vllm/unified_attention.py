"""Paged attention of FlashAttention-3; the schedule is made in `setup`, as vLLM does per step."""

from typing import Any

import torch
from _fa3 import forward, schedule


def setup(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    **_others: Any,
) -> torch.Tensor:
    """Tiles and splits."""
    dim = q.shape[2]
    if dim > 256:
        raise NotImplementedError(f"head_dim {dim}: FlashAttention-3 has up to 256")
    most, heads = (max_seqlen_q, max_seqlen_k), (q.shape[1], k_cache.shape[2])
    page = k_cache.shape[1]
    return schedule(
        len(seqused_k), most, heads, (dim, dim), q.dtype, seqused_k, cu_seqlens_q, page, True
    )


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
    plan: torch.Tensor,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    return forward(
        q,
        k_cache,
        v_cache,
        cu_seqlens_q=cu_seqlens_q,
        seqused_k=seqused_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        page_table=block_table,
        softmax_scale=softmax_scale,
        causal=True,
        scheduler_metadata=plan,
    )
