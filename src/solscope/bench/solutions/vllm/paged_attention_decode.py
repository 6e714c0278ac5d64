"""Paged attention of vLLM, v1 or v2 by its own rule."""

import torch
from _vllm import load

load("_C_stable_libtorch.abi3.so")

PARTITION = 512


def setup(block_tables: torch.Tensor, **_others: object) -> torch.Tensor:
    """The scale of a cache that is not quantized."""
    return torch.ones(1, device=block_tables.device)


def run(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    softmax_scale: float,
    plan: torch.Tensor,
) -> torch.Tensor:
    """Attention of one query per sequence."""
    sequences, heads, dim = query.shape
    kv_heads, block = k_cache.shape[1], k_cache.shape[3]
    out = torch.empty_like(query)
    rest = (
        query, k_cache, v_cache, kv_heads, softmax_scale, block_tables, seq_lens, block,
        max_seq_len, None, "auto", plan, plan, 0, 0, 0, 64, 0,
    )  # fmt: skip
    parts = -(-max_seq_len // PARTITION)
    if max_seq_len <= 8192 and (parts == 1 or sequences * heads > 512):
        torch.ops._C.paged_attention_v1(out, *rest)
        return out
    sums = torch.empty(sequences, heads, parts, device=query.device)
    partial = query.new_empty(sequences, heads, parts, dim)
    torch.ops._C.paged_attention_v2(out, sums, torch.empty_like(sums), partial, *rest)
    return out
