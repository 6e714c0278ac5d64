"""Count, offsets and scatter with atomic additions; order inside an expert is arbitrary."""

import torch
import triton
import triton.language as tl
from _align import SLOTS, count_kernel, scatter_kernel


@triton.jit
def sum_kernel(counts, starts, offsets, EXPERTS: tl.constexpr, EXPERTS_UP: tl.constexpr):
    expert = tl.arange(0, EXPERTS_UP)
    known = expert < EXPERTS
    count = tl.load(counts + expert, mask=known, other=0)
    ends = tl.cumsum(count, 0)
    tl.store(starts + expert, ends - count, mask=known)
    tl.store(offsets + expert, ends - count, mask=known)
    tl.store(offsets + EXPERTS, tl.sum(count, 0))


def run(
    topk_ids: torch.Tensor, num_experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert, tokens per expert, and where each expert starts."""
    slots, device = topk_ids.numel(), topk_ids.device
    counts = torch.zeros(num_experts, dtype=torch.int32, device=device)
    starts = torch.empty(num_experts, dtype=torch.int32, device=device)
    offsets = torch.empty(num_experts + 1, dtype=torch.int32, device=device)
    out = torch.empty(slots, dtype=torch.int32, device=device)
    programs = (triton.cdiv(slots, SLOTS),)
    count_kernel[programs](topk_ids, counts, slots, SLOTS=SLOTS)
    sum_kernel[(1,)](
        counts,
        starts,
        offsets,
        EXPERTS=num_experts,
        EXPERTS_UP=triton.next_power_of_2(num_experts),
    )
    scatter_kernel[programs](topk_ids, starts, out, slots, SLOTS=SLOTS)
    return out, counts, offsets
