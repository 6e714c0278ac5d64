"""Decode attention over the split-x cache, the context split over programs."""

import torch
from _decode import decode


def run(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence; zero for an empty one."""
    k, v = k_cache.stride(), v_cache.stride()
    return decode(
        query,
        k_cache,
        v_cache,
        block_tables,
        seq_lens,
        max_seq_len,
        softmax_scale,
        kv_heads=v_cache.shape[1],
        page=v_cache.shape[3],
        k_strides=(k[0], k[1], k[3], k[2]),
        v_strides=(v[0], v[1], v[3], v[2]),
        x=k_cache.shape[4],
    )
