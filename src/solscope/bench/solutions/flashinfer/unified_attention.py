"""Paged attention of FlashInfer: its prefill wrapper, also for single queries in a mixed batch.

The plan depends on lengths alone and is made in `setup`, as servers make it once per step.
"""

from typing import Any

import torch
from _pages import page_list, workspace
from flashinfer import BatchPrefillWithPagedKVCacheWrapper
from flashinfer.decode import BatchDecodeWithPagedKVCacheWrapper

HEAD_DIMS = (64, 128, 256)


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
    if dim not in HEAD_DIMS:
        raise NotImplementedError(f"head_dim {dim}: FlashInfer has {HEAD_DIMS}")
    pages = page_list(block_table, seqused_k, page)
    room = workspace(block_table.device)
    dtypes = {"q_data_type": q.dtype, "kv_data_type": k_cache.dtype, "sm_scale": softmax_scale}
    if max_seqlen_q == 1 and tokens == len(seqused_k):
        decode = BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=True)
        decode.plan(*pages, heads, kv_heads, dim, page, **dtypes)
        return decode
    prefill = BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
    prefill.plan(cu_seqlens_q, *pages, heads, kv_heads, dim, page, causal=True, **dtypes)
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
    out: torch.Tensor = plan.run(q, (k_cache, v_cache))
    return out
