"""A stable sort and scattered offsets, without waiting for the GPU."""

from __future__ import annotations

import torch


def run(
    topk_ids: torch.Tensor, num_experts: int, block_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert in padded blocks, the expert of each block, and the padded length."""
    flat, device = topk_ids.flatten().long(), topk_ids.device
    slots = flat.numel()
    most = min(slots + num_experts * (block_size - 1), slots * block_size)
    length = -(-most // block_size) * block_size
    ones = torch.ones_like(flat)
    counts = torch.zeros(num_experts, dtype=torch.long, device=device).scatter_add_(0, flat, ones)
    padded = (counts + block_size - 1) // block_size * block_size
    ends = padded.cumsum(0)
    expert, order = torch.sort(flat, stable=True)
    rank = torch.arange(slots, device=device) - (counts.cumsum(0) - counts)[expert]
    ids = torch.full((length,), slots, dtype=torch.int32, device=device)
    ids[(ends - padded)[expert] + rank] = order.to(torch.int32)
    starts = torch.arange(0, length, block_size, device=device)
    experts = torch.searchsorted(ends, starts, right=True).to(torch.int32)
    return ids, experts, ends[-1:].to(torch.int32)
