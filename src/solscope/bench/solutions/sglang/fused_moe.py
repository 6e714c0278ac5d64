"""The MoE layer of SGLang, bf16."""

import torch
from _experts import layer


def run(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[tokens, hidden] in `out_dtype`; SGLang's sum is in bf16."""
    return layer(hidden_states, w1, w2, topk_weights, topk_ids).to(getattr(torch, out_dtype))
