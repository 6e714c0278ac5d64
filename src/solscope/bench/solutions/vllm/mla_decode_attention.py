"""Dense decode kernel of FlashMLA; its schedule comes from a call in `setup`, once per step."""

from typing import Any

import torch
from _vllm import load

load("_flashmla_C.abi3.so")


def _call(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    block_table: torch.Tensor,
    latent_dim: int,
    scale: float,
    plan: tuple[Any, Any],
) -> Any:
    return torch.ops._flashmla_C.dense_decode_fwd(
        q.unsqueeze(1), kv_cache, latent_dim, seq_lens, block_table, scale, False, *plan, None
    )


def setup(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    latent_dim: int,
    softmax_scale: float,
    **_others: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tiles and splits, which depend on lengths alone: from a call on zeros of one block."""
    if kv_cache.shape[1] != 64 or (latent_dim, q.shape[2]) != (512, 576):
        raise NotImplementedError("blocks of 64 rows of 512 + 64 values only")
    queries = torch.zeros(q.shape, dtype=q.dtype, device=seq_lens.device)
    rows = torch.zeros(1, *kv_cache.shape[1:], dtype=kv_cache.dtype, device=seq_lens.device)
    blocks = torch.zeros_like(block_table)
    found = _call(queries, rows, seq_lens, blocks, latent_dim, softmax_scale, (None, None))
    return found[2], found[3]


def run(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    latent_dim: int,
    softmax_scale: float,
    plan: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Attention of one query per sequence."""
    found = _call(q, kv_cache, seq_lens, block_table, latent_dim, softmax_scale, plan)
    out: torch.Tensor = found[0]
    return out.squeeze(1)
