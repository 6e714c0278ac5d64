"""Sum over experts of sglang-kernel."""

import torch
from _sgl_kernel import ops


def run(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> torch.Tensor:
    """[tokens, hidden]."""
    out = expert_outputs.new_empty(expert_outputs.shape[0], expert_outputs.shape[2])
    ops.moe_sum_reduce(expert_outputs, out, routed_scaling_factor)
    return out
