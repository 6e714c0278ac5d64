"""Paged attention of SGLang: its decode kernel for single queries, its extend kernel for more.

Indices of the tokens in the cache are made in `setup`, as the server makes them once per step.
"""

from typing import Any

import torch
from _pages import SPLITS, buffers, splits, token_indices
from _sglang import kernels

decode = kernels("attention.triton_ops.decode_attention").decode_attention_fwd
extend = kernels("attention.triton_ops.extend_attention").extend_attention_fwd_unified


def setup(
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    k_cache: torch.Tensor,
    q: torch.Tensor,
    **_others: Any,
) -> dict[str, torch.Tensor]:
    """Indices of one step."""
    pointer, indices = token_indices(block_table, seqused_k, k_cache.shape[1])
    groups = q.shape[1] // min(16, q.shape[1] // k_cache.shape[2])
    return {
        "pointer": pointer,
        "indices": indices,
        "prefix": (seqused_k - cu_seqlens_q.diff()).to(torch.int32),
        "splits": splits(seqused_k, len(seqused_k) * groups),
    }


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
    plan: dict[str, torch.Tensor],
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    keys, values = k_cache.flatten(0, 1), v_cache.flatten(0, 1)
    out = torch.empty_like(q)
    if max_seqlen_q == 1 and q.shape[0] == len(seqused_k):
        parts = buffers(*q.shape, q.device)
        decode(
            q,
            keys,
            values,
            out,
            plan["pointer"],
            plan["indices"],
            *parts,
            plan["splits"],
            SPLITS,
            softmax_scale,
        )
        return out
    extend(
        q,
        out,
        keys,
        values,
        cu_seqlens_q,
        plan["pointer"],
        plan["indices"],
        plan["prefix"],
        max_seqlen_q,
        sm_scale=softmax_scale,
    )
    return out
