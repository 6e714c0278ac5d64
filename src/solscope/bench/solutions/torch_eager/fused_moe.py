"""The experts of an MoE layer: tokens sorted by expert, two grouped products, weighted sum.

Without grouped products in this torch, one expert after the other.
"""

import torch
from torch.nn.functional import linear, silu


def run(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[tokens, hidden] in `out_dtype`."""
    tokens, top_k = topk_ids.shape
    order = topk_ids.flatten().argsort(stable=True)
    counts = topk_ids.new_zeros(w1.shape[0])
    counts.scatter_add_(0, topk_ids.flatten().long(), torch.ones_like(topk_ids.flatten()))
    x = hidden_states[order // top_k]
    y = experts(x, w1, w2, counts)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    mixed = y[back].view(tokens, top_k, -1) * topk_weights[..., None]
    return mixed.sum(1).to(getattr(torch, out_dtype))


def experts(
    x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Rows sorted by expert through their experts."""
    if hasattr(torch, "_grouped_mm"):
        ends = counts.cumsum(0).to(torch.int32)
        gate, up = torch._grouped_mm(x, w1.mT, offs=ends).chunk(2, -1)
        return torch._grouped_mm(silu(gate) * up, w2.mT, offs=ends)
    out = torch.empty(x.shape[0], w2.shape[1], dtype=x.dtype, device=x.device)
    start = 0
    for expert, count in enumerate(counts.tolist()):
        rows = slice(start, start + count)
        gate, up = linear(x[rows], w1[expert]).chunk(2, -1)
        out[rows] = linear(silu(gate) * up, w2[expert])
        start += count
    return out
