"""Alignment of slots of vLLM."""

import torch
from _vllm import load

load("_moe_C_stable_libtorch.abi3.so")


def run(
    topk_ids: torch.Tensor, num_experts: int, block_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert in padded blocks, the expert of each block, and the padded length."""
    slots, device = topk_ids.numel(), topk_ids.device
    length = min(slots + num_experts * (block_size - 1), slots * block_size)
    length = -(-length // block_size) * block_size
    order = torch.empty(length, dtype=torch.int32, device=device)
    experts = torch.empty(length // block_size, dtype=torch.int32, device=device)
    total = torch.empty(1, dtype=torch.int32, device=device)
    torch.ops._moe_C.moe_align_block_size(
        topk_ids, num_experts, block_size, order, experts, total, None
    )
    return order, experts, total
