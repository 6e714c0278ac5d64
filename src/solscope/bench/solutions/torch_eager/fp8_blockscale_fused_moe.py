"""The experts of an MoE layer in fp8: weights dequantized to bf16, then grouped products.

With fewer routes than experts only the weights of the routes are dequantized. Some at a time, for
the 32-bit values in between take much memory; a compiler fuses them away, so it gets all at once.
"""

import torch
from torch.nn.functional import linear, silu

BLOCK = 128
ROUTES_AT_A_TIME = 8
EXPERTS_AT_A_TIME = 8


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
    tokens, top_k = topk_ids.shape
    spread = a_scale.repeat_interleave(BLOCK, 1)[:, : hidden_states.shape[1]]
    x = (hidden_states.float() * spread).to(torch.bfloat16)
    flat = topk_ids.flatten().long()
    if len(flat) <= w1.shape[0]:
        y = by_route(x, (w1, fc1_scale), (w2, fc2_scale), flat, top_k)
    else:
        order = flat.argsort(stable=True)
        counts = torch.zeros(w1.shape[0], dtype=torch.int32, device=x.device)
        counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        gate, up = grouped(x[order // top_k], w1, fc1_scale, counts).chunk(2, -1)
        y = torch.empty(len(flat), w2.shape[1], dtype=x.dtype, device=x.device)
        y[order] = grouped(silu(gate) * up, w2, fc2_scale, counts)
    mixed = y.view(tokens, top_k, -1) * topk_weights[..., None]
    return mixed.sum(1).to(torch.bfloat16)


def at_a_time(few: int, every: int) -> int:
    """How many weights to dequantize together."""
    return every if torch.compiler.is_compiling() else few


def dequantize(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """[n, rows, columns] in bf16."""
    _, rows, columns = codes.shape
    tall = scale.repeat_interleave(BLOCK, 1)[:, :rows]
    return (codes.float() * tall.repeat_interleave(BLOCK, 2)[..., :columns]).to(torch.bfloat16)


def by_route(
    x: torch.Tensor,
    first: tuple[torch.Tensor, torch.Tensor],
    second: tuple[torch.Tensor, torch.Tensor],
    experts: torch.Tensor,
    top_k: int,
) -> torch.Tensor:
    """One row per route, each with its own copy of its expert's weights."""

    def taken(weights: tuple[torch.Tensor, torch.Tensor], which: torch.Tensor) -> torch.Tensor:
        codes, scale = weights
        return dequantize(codes.view(torch.uint8)[which].view(codes.dtype), scale[which])

    out = []
    every = torch.arange(len(experts), device=x.device)
    for routes in torch.split(every, at_a_time(ROUTES_AT_A_TIME, len(experts))):
        which = experts[routes]
        rows = x[routes // top_k, :, None]
        gate, up = torch.bmm(taken(first, which), rows)[..., 0].chunk(2, -1)
        out.append(torch.bmm(taken(second, which), (silu(gate) * up)[..., None])[..., 0])
    return torch.cat(out)


def grouped(
    x: torch.Tensor, codes: torch.Tensor, scale: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Rows sorted by expert, each times the weights of its expert."""
    weight = torch.empty(codes.shape, dtype=torch.bfloat16, device=x.device)
    step = at_a_time(EXPERTS_AT_A_TIME, len(codes))
    for start in range(0, len(codes), step):
        some = slice(start, start + step)
        weight[some] = dequantize(codes[some], scale[some])
    if hasattr(torch, "_grouped_mm"):
        return torch._grouped_mm(x, weight.mT, offs=counts.cumsum(0).to(torch.int32))
    parts = torch.split(x, counts.tolist())
    return torch.cat([linear(rows, weight[expert]) for expert, rows in enumerate(parts)])
