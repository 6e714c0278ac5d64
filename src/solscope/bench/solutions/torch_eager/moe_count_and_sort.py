"""A stable sort, and counts by scattering."""

from __future__ import annotations

import torch


def run(
    topk_ids: torch.Tensor, num_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert, tokens per expert, and where each expert starts."""
    flat, device = topk_ids.flatten().long(), topk_ids.device
    order = torch.sort(flat, stable=True).indices.to(torch.int32)
    counts = torch.zeros(num_experts, dtype=torch.int32, device=device)
    counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
    offsets = torch.zeros(num_experts + 1, dtype=torch.int32, device=device)
    offsets[1:] = counts.cumsum(0)
    return order, counts, offsets
