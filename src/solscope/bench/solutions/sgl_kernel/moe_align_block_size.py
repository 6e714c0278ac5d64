"""Alignment of slots of sglang-kernel.

It counts one expert more, for slots of other ranks; its buffers are those of SGLang, cut to size.
"""

import torch
from _sgl_kernel import ops


def run(
    topk_ids: torch.Tensor, num_experts: int, block_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert in padded blocks, the expert of each block, and the padded length."""
    slots, device = topk_ids.numel(), topk_ids.device
    length = min(slots + num_experts * (block_size - 1), slots * block_size)
    length = -(-length // block_size) * block_size
    room = slots + (num_experts + 1) * (block_size - 1)
    if slots < num_experts + 1:
        room = slots * block_size
    blocks = -(-room // block_size)
    order = torch.empty(blocks * block_size, dtype=torch.int32, device=device)
    experts = torch.empty(blocks, dtype=torch.int32, device=device)
    total = torch.empty(1, dtype=torch.int32, device=device)
    sums = torch.empty(num_experts + 2, dtype=torch.int32, device=device)
    ops.moe_align_block_size(
        topk_ids, num_experts + 1, block_size, order, experts, total, sums, True
    )
    return order[:length], experts[: length // block_size], total
