"""Softmax and top-k of a few rows per program: the largest is taken k times."""

import torch
import triton
import triton.language as tl

try:
    import _gate
except ImportError:  # A Triton without Gluon.
    _gate = None


@triton.jit
def gating_kernel(
    logits,
    weights,
    ids,
    tokens,
    EXPERTS: tl.constexpr,
    EXPERTS_UP: tl.constexpr,
    TOP_K: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert = tl.arange(0, EXPERTS_UP)
    valid = row < tokens
    inside = valid[:, None] & (expert < EXPERTS)[None, :]
    at = row.to(tl.int64)[:, None] * EXPERTS + expert[None, :]
    scores = tl.load(logits + at, mask=inside, other=float("-inf"))
    best = tl.max(scores, 1)
    best = tl.where(best == float("-inf"), 0.0, best)
    powers = tl.exp(scores - best[:, None])
    total = tl.sum(powers, 1)
    left = tl.where((expert < EXPERTS)[None, :], powers, -1.0)
    for place in tl.static_range(TOP_K):
        largest, chosen = tl.max(left, 1, return_indices=True)
        tl.store(weights + row * TOP_K + place, largest / total, mask=valid)
        tl.store(ids + row * TOP_K + place, chosen, mask=valid)
        left = tl.where(expert[None, :] == chosen[:, None], -1.0, left)


def run(gating_output: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids of the best experts."""
    tokens, experts = gating_output.shape
    weights = torch.empty(tokens, top_k, dtype=torch.float32, device=gating_output.device)
    ids = torch.empty(tokens, top_k, dtype=torch.int32, device=gating_output.device)
    if _gate is not None and gating_output.is_cuda and _gate.fits(experts):
        _gate.gate(gating_output, weights, ids)
        return weights, ids
    rows = 4
    gating_kernel[(triton.cdiv(tokens, rows),)](
        gating_output,
        weights,
        ids,
        tokens,
        EXPERTS=experts,
        EXPERTS_UP=triton.next_power_of_2(experts),
        TOP_K=top_k,
        ROWS=rows,
        num_warps=4,
    )
    return weights, ids
