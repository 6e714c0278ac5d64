"""Full attention over packed sequences of FlashInfer; the plan is made in `setup`."""

from typing import Any

import torch
from _pages import workspace
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

HEAD_DIMS = (64, 128, 256)


def setup(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    softmax_scale: float,
    **_others: Any,
) -> Any:
    """A planned wrapper."""
    _, heads, dim = q.shape
    if dim not in HEAD_DIMS:
        raise NotImplementedError(f"head_dim {dim}: FlashInfer has {HEAD_DIMS}")
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(workspace(cu_seqlens_q.device), "NHD")
    wrapper.plan(
        cu_seqlens_q,
        cu_seqlens_k,
        heads,
        k.shape[1],
        dim,
        causal=False,
        sm_scale=softmax_scale,
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return wrapper


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    plan: Any,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence."""
    out: torch.Tensor = plan.run(q, k, v)
    return out
