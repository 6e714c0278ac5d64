"""Sum of expert outputs of SGLang."""

import torch
from _sglang import kernels

add = kernels("moe.fused_moe_triton.fused_moe_triton_kernels").moe_sum_reduce_triton


def run(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> torch.Tensor:
    """[tokens, hidden]."""
    tokens, _, hidden = expert_outputs.shape
    out = expert_outputs.new_empty(tokens, hidden)
    add(expert_outputs, out, routed_scaling_factor)
    return out
