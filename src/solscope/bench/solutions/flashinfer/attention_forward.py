"""Full attention over packed sequences of FlashInfer; the plan is made in `setup`.

Heads of other sizes than FlashInfer has are padded with zeros in `run`, at its cost.
"""

from typing import Any

import torch
from _pages import padded, padded_dim, workspace
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper


def setup(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    softmax_scale: float,
    **_others: Any,
) -> Any:
    """A planned wrapper."""
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(workspace(cu_seqlens_q.device), "NHD")
    wrapper.plan(
        cu_seqlens_q,
        cu_seqlens_k,
        q.shape[1],
        k.shape[1],
        padded_dim(q.shape[2]),
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
    out: torch.Tensor = plan.run(padded(q), padded(k), padded(v))
    return out[..., : q.shape[-1]].contiguous()
