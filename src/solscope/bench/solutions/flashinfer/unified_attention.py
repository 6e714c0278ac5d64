"""Paged attention of FlashInfer: decode wrapper for single queries, prefill wrapper for others.

The plan depends on lengths alone and is made in `setup`, as servers make it once per step. Heads of
other sizes than FlashInfer has are padded with zeros in `run`, at its cost.
"""

from typing import Any

import torch
from _pages import padded, padded_dim, page_list, workspace
from flashinfer import BatchPrefillWithPagedKVCacheWrapper
from flashinfer.decode import BatchDecodeWithPagedKVCacheWrapper

PREFILL_QUERIES = 64
"""Mean queries per sequence below which the kernel for Hopper, which gives every head and sequence
a tile of 128 rows and splits no context, loses to the one that packs heads and splits."""


def setup(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    max_seqlen_q: int,
    softmax_scale: float,
    **_others: Any,
) -> Any:
    """A planned wrapper."""
    tokens, heads, dim = q.shape
    page, kv_heads = k_cache.shape[1:3]
    sizes = (heads, kv_heads, padded_dim(dim), page)
    pages = page_list(block_table, seqused_k, page)
    room = workspace(block_table.device)
    options = {"q_data_type": q.dtype, "kv_data_type": k_cache.dtype, "sm_scale": softmax_scale}
    if max_seqlen_q == 1 and tokens == len(seqused_k):
        decode = BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=True)
        decode.plan(*pages, *sizes, **options)
        return decode
    backend = "auto" if tokens >= PREFILL_QUERIES * len(seqused_k) else "fa2"
    prefill = BatchPrefillWithPagedKVCacheWrapper(room, "NHD", backend=backend)
    prefill.plan(cu_seqlens_q, *pages, *sizes, causal=True, **options)
    return prefill


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
    plan: Any,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    out: torch.Tensor = plan.run(padded(q), (padded(k_cache), padded(v_cache)))
    return out[..., : q.shape[-1]].contiguous()
