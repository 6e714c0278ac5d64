"""Latent decode attention of SGLang: its grouped decode kernel on rows of 512 + 64 values."""

from typing import Any

import torch
from _pages import SPLITS, buffers, splits, token_indices
from _sglang import kernels

decode = kernels("attention.triton_ops.decode_attention").decode_attention_fwd


def setup(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    **_others: Any,
) -> dict[str, torch.Tensor]:
    """Indices of one step."""
    pointer, indices = token_indices(block_table, seq_lens, kv_cache.shape[1])
    programs = len(seq_lens) * -(-q.shape[1] // 16)
    return {
        "pointer": pointer,
        "indices": indices,
        "splits": splits(seq_lens, programs),
        "empty": (seq_lens == 0).nonzero()[:, 0],
    }


def run(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    latent_dim: int,
    softmax_scale: float,
    plan: dict[str, torch.Tensor],
) -> torch.Tensor:
    """Attention of one query per sequence; the kernel leaves 0/0 where there is no key."""
    rows = kv_cache.flatten(0, 1)
    out = q.new_empty(*q.shape[:2], latent_dim)
    parts = buffers(q.shape[0], q.shape[1], latent_dim, q.device)
    decode(
        q,
        rows,
        rows[..., :latent_dim],
        out,
        plan["pointer"],
        plan["indices"],
        *parts,
        plan["splits"],
        SPLITS,
        softmax_scale,
    )
    if len(plan["empty"]):
        out[plan["empty"]] = 0
    return out
