"""Sum of expert outputs in fp32."""

import torch
from _moe import add_routes


def run(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> torch.Tensor:
    """[tokens, hidden]."""
    tokens, top_k, hidden = expert_outputs.shape
    rows = expert_outputs.view(tokens * top_k, hidden)
    return add_routes(rows, top_k, expert_outputs.dtype, routed_scaling_factor)
