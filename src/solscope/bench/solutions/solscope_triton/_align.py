"""Slots sorted by expert into padded blocks: count, offsets, scatter."""

import torch
import triton
import triton.language as tl

SLOTS = 1024


@triton.jit
def count_kernel(ids, counts, slots, SLOTS: tl.constexpr):
    at = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    inside = at < slots
    expert = tl.load(ids + at, mask=inside, other=0)
    tl.atomic_add(counts + expert, 1, mask=inside)


@triton.jit
def offsets_kernel(
    counts,
    starts,
    experts_of,
    total,
    blocks,
    EXPERTS: tl.constexpr,
    EXPERTS_UP: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    expert = tl.arange(0, EXPERTS_UP)
    known = expert < EXPERTS
    count = tl.load(counts + expert, mask=known, other=0)
    padded = (count + BLOCK - 1) // BLOCK * BLOCK
    ends = tl.cumsum(padded, 0)
    first = tl.program_id(0) * TILE
    if first == 0:
        tl.store(starts + expert, ends - padded, mask=known)
        tl.store(total, tl.sum(padded, 0))
    block = first + tl.arange(0, TILE)
    before = (ends[None, :] <= (block * BLOCK)[:, None]) & known[None, :]
    tl.store(experts_of + block, tl.sum(before.to(tl.int32), 1), mask=block < blocks)


@triton.jit
def scatter_kernel(ids, starts, out, slots, SLOTS: tl.constexpr):
    at = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    inside = at < slots
    expert = tl.load(ids + at, mask=inside, other=0)
    place = tl.atomic_add(starts + expert, 1, mask=inside)
    tl.store(out + place, at, mask=inside)


def align(
    topk_ids: torch.Tensor, experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sorted slots, the expert of each block, and the padded length."""
    slots, device = topk_ids.numel(), topk_ids.device
    most = min(slots + experts * (block - 1), slots * block)
    blocks = -(-most // block)
    integers = {"dtype": torch.int32, "device": device}
    counts = torch.zeros(experts, **integers)
    starts = torch.empty(experts, **integers)
    out = torch.full((blocks * block,), slots, **integers)
    experts_of, total = torch.empty(blocks, **integers), torch.empty(1, **integers)
    programs = (triton.cdiv(slots, SLOTS),)
    count_kernel[programs](topk_ids, counts, slots, SLOTS=SLOTS)
    offsets_kernel[(triton.cdiv(blocks, 64),)](
        counts,
        starts,
        experts_of,
        total,
        blocks,
        EXPERTS=experts,
        EXPERTS_UP=triton.next_power_of_2(experts),
        BLOCK=block,
        TILE=64,
    )
    scatter_kernel[programs](topk_ids, starts, out, slots, SLOTS=SLOTS)
    return out, experts_of, total
