"""An MoE layer with fp8 weights: the first product in fp8, the second on bf16 activations."""

import torch
from _moe import experts


def run(
    hidden_states: torch.Tensor,
    a_scale: torch.Tensor,
    w1: torch.Tensor,
    fc1_scale: torch.Tensor,
    w2: torch.Tensor,
    fc2_scale: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
) -> torch.Tensor:
    """[tokens, hidden] in bf16."""
    scales = (a_scale, fc1_scale, fc2_scale)
    return experts(hidden_states, w1, w2, topk_weights, topk_ids, torch.bfloat16, scales)
