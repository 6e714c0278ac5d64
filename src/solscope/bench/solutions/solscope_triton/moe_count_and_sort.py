"""Counts, offsets and places of slots by expert; order inside an expert is arbitrary."""

import torch
from _align import place


def run(
    topk_ids: torch.Tensor, num_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert, tokens per expert, and where each expert starts."""
    slots, device = topk_ids.numel(), topk_ids.device
    counts = torch.empty(num_experts, dtype=torch.int32, device=device)
    offsets = torch.empty(num_experts + 1, dtype=torch.int32, device=device)
    out = torch.empty(slots, dtype=torch.int32, device=device)
    place(topk_ids, num_experts, 1, out, counts, counts, offsets, offsets=True)
    return out, counts, offsets
