"""Slots sorted by expert into padded blocks: counts of each program's slots, then their places.

No memory is cleared beforehand and no counter is shared by two programs. Few slots take one
launch, more take two: each program then adds up the counts of those before it.
"""

import torch
import triton
import triton.language as tl

SLOTS = 1024
"""Slots per program, at most."""
LEAST = 128
"""Slots per program, at least, where there are several."""
ALONE = 256
"""Slots that one program does in one launch; four times as many where it fills no padding."""
PARTS = 64
"""Programs whose counts are added up at a time."""
WARPS = 4


@triton.jit
def count_kernel(
    ids, counts, slots, EXPERTS: tl.constexpr, EXPERTS_UP: tl.constexpr, SLOTS: tl.constexpr
):
    """Slots of each expert among those of one program."""
    at = tl.program_id(0) * SLOTS + tl.arange(0, SLOTS)
    inside = at < slots
    expert = tl.load(ids + at, mask=inside, other=0)
    count = tl.histogram(expert, EXPERTS_UP, mask=inside)
    number = tl.arange(0, EXPERTS_UP)
    tl.store(counts + tl.program_id(0) * EXPERTS + number, count, mask=number < EXPERTS)


@triton.jit
def place_kernel(
    ids,
    counts,
    cursors,
    out,
    experts_of,
    sizes,
    total,
    slots,
    parts,
    EXPERTS: tl.constexpr,
    EXPERTS_UP: tl.constexpr,
    BLOCK: tl.constexpr,
    SLOTS: tl.constexpr,
    ONE: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_UP: tl.constexpr,
    TILE: tl.constexpr,
    OFFSETS: tl.constexpr,
):
    """Each slot to its place; padding, the expert of each block and the totals by the way."""
    program = tl.program_id(0)
    at = program * SLOTS + tl.arange(0, SLOTS)
    inside = at < slots
    expert = tl.load(ids + at, mask=inside, other=0)
    number = tl.arange(0, EXPERTS_UP)
    known = number < EXPERTS
    count = tl.zeros([EXPERTS_UP], tl.int32)
    earlier = tl.zeros([EXPERTS_UP], tl.int32)
    if ONE:
        count = tl.histogram(expert, EXPERTS_UP, mask=inside)
    else:
        for first in range(0, parts, PARTS):
            part = first + tl.arange(0, PARTS)
            every = tl.load(
                counts + part[:, None] * EXPERTS + number[None, :],
                mask=(part < parts)[:, None] & known[None, :],
                other=0,
            )
            count += tl.sum(every, 0)
            earlier += tl.sum(tl.where((part < program)[:, None], every, 0), 0)
    padded = (count + BLOCK - 1) // BLOCK * BLOCK
    ends = tl.cumsum(padded, 0)
    starts = ends - padded
    mine = cursors + program * EXPERTS
    tl.store(mine + number, starts + earlier, mask=known)
    # All threads see the cursors now; no other program has these.
    tl.debug_barrier()
    place = tl.atomic_add(mine + expert, 1, mask=inside, sem="relaxed")
    tl.store(out + place, at, mask=inside)
    if OFFSETS:
        if program == 0:
            tl.store(sizes + number, count, mask=known)
            tl.store(total + number, starts, mask=known)
            tl.store(total + EXPERTS, tl.sum(count, 0))
    else:
        if program == 0:
            tl.store(total, tl.sum(padded, 0))
        filler = tl.arange(0, BLOCK_UP)
        used = starts + count
        filled = tl.sum(padded, 0) // BLOCK
        for first in range(program * TILE, filled, tl.num_programs(0) * TILE):
            block = first + tl.arange(0, TILE)
            # The expert of a block is the first that ends behind it.
            of_block = tl.sum((ends[None, :] <= (block * BLOCK)[:, None]).to(tl.int32), 1)
            tl.store(experts_of + block, of_block, mask=block < filled)
            here = number[None, :] == of_block[:, None]
            stop = tl.sum(tl.where(here, used[None, :], 0), 1)
            cell = (block * BLOCK)[:, None] + filler[None, :]
            empty = (cell >= stop[:, None]) & (filler < BLOCK)[None, :] & (block < filled)[:, None]
            tl.store(out + cell, slots, mask=empty)


def place(
    topk_ids: torch.Tensor,
    experts: int,
    block: int,
    out: torch.Tensor,
    experts_of: torch.Tensor,
    sizes: torch.Tensor,
    total: torch.Tensor,
    *,
    offsets: bool,
) -> None:
    """Sort into `out`; with `offsets`, counts and offsets are written instead of blocks."""
    slots = topk_ids.numel()
    each = max(16, triton.next_power_of_2(slots))
    if each > (4 * ALONE if offsets else ALONE):
        each = min(SLOTS, max(LEAST, triton.next_power_of_2(triton.cdiv(slots, PARTS))))
    parts = max(1, triton.cdiv(slots, each))
    wide = triton.next_power_of_2(experts)
    work = torch.empty(2, parts, experts, dtype=torch.int32, device=topk_ids.device)
    shape = {"EXPERTS": experts, "EXPERTS_UP": wide, "SLOTS": each, "num_warps": WARPS}
    if parts > 1:
        count_kernel[(parts,)](topk_ids, work[0], slots, **shape)
    place_kernel[(parts,)](
        topk_ids,
        work[0],
        work[1],
        out,
        experts_of,
        sizes,
        total,
        slots,
        parts,
        BLOCK=block,
        ONE=parts == 1,
        PARTS=PARTS,
        BLOCK_UP=triton.next_power_of_2(block),
        TILE=16,
        OFFSETS=offsets,
        **shape,
    )


def align(
    topk_ids: torch.Tensor, experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sorted slots, the expert of each block, and the padded length."""
    slots, device = topk_ids.numel(), topk_ids.device
    most = min(slots + experts * (block - 1), slots * block)
    blocks = -(-most // block)
    integers = {"dtype": torch.int32, "device": device}
    out = torch.empty(blocks * block, **integers)
    experts_of, total = torch.empty(blocks, **integers), torch.empty(1, **integers)
    place(topk_ids, experts, block, out, experts_of, total, total, offsets=False)
    return out, experts_of, total
