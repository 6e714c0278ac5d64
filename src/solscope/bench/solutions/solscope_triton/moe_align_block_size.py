"""Count, offsets and scatter with atomic additions; order inside an expert is arbitrary."""

import torch
from _align import align


def run(
    topk_ids: torch.Tensor, num_experts: int, block_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert in padded blocks, the expert of each block, and the padded length."""
    return align(topk_ids, num_experts, block_size)
