"""The MoE layer of SGLang, fp8 with block scales; it quantizes activations in between."""

import torch
from _experts import layer


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
    return layer(hidden_states, w1, w2, topk_weights, topk_ids, scales)
