"""The sum of expert outputs: torch.sum accumulates bf16 in fp32."""

import torch


def run(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> torch.Tensor:
    """[tokens, hidden]."""
    if routed_scaling_factor == 1.0:
        return expert_outputs.sum(1)
    total = expert_outputs.sum(1, dtype=torch.float32)
    return total.mul_(routed_scaling_factor).to(expert_outputs.dtype)
