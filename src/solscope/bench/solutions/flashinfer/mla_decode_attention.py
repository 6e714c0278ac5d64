"""Latent decode attention of FlashInfer on views of the paged rows.

The plan depends on lengths alone and is made in `setup`, as servers make it once per step.
"""

from typing import Any

import torch
from _pages import page_list, workspace
from flashinfer.mla import BatchMLAPagedAttentionWrapper


def setup(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    latent_dim: int,
    softmax_scale: float,
    **_others: Any,
) -> Any:
    """A planned wrapper."""
    sequences, heads, width = q.shape
    page = kv_cache.shape[1]
    pointer, indices, _ = page_list(block_table, seq_lens, page)
    queries = torch.arange(sequences + 1, dtype=torch.int32, device=seq_lens.device)
    wrapper = BatchMLAPagedAttentionWrapper(workspace(seq_lens.device))
    wrapper.plan(
        queries,
        pointer,
        indices,
        seq_lens,
        heads,
        latent_dim,
        width - latent_dim,
        page,
        False,
        softmax_scale,
        q.dtype,
        kv_cache.dtype,
    )
    return wrapper


def run(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    latent_dim: int,
    softmax_scale: float,
    plan: Any,
) -> torch.Tensor:
    """Attention of one query per sequence."""
    rows = kv_cache.squeeze(2)
    out: torch.Tensor = plan.run(
        q[..., :latent_dim],
        q[..., latent_dim:],
        rows[..., :latent_dim],
        rows[..., latent_dim:],
    )
    return out
