"""Decode attention over pages, the context split over programs, and the merge of the parts.

One program takes all query heads of one key head, so that scores are a small matrix product.
"""

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
KEYS = 64
"""Keys per step."""


@triton.jit
def attend_kernel(
    q,
    k,
    v,
    table,
    lengths,
    parts,
    sums,
    scale,
    q_row,
    q_head,
    k_page,
    k_head,
    k_slot,
    k_group,
    v_page,
    v_head,
    v_slot,
    v_dim,
    table_row,
    heads: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths + sequence)
    each = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    start = split * each
    stop = tl.minimum(start + each, length)

    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    known = dim < DIM
    head = kv_head * GROUP + row
    q_at = q + sequence.to(tl.int64) * q_row + head[:, None] * q_head + dim[None, :]
    queries = tl.load(q_at, mask=(row < GROUP)[:, None] & known[None, :], other=0.0)

    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, WIDTH], tl.float32)
    k_dims = (dim // X) * k_group + dim % X
    for first in range(start, stop, KEYS):
        key = first + tl.arange(0, KEYS)
        seen = key < stop
        page = tl.load(table + sequence * table_row + key // PAGE, mask=seen, other=0).to(tl.int64)
        slot = key % PAGE
        k_at = k + page * k_page + kv_head * k_head + slot * k_slot
        keys = tl.load(
            k_at[None, :] + k_dims[:, None], mask=known[:, None] & seen[None, :], other=0.0
        )
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp2(best - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        v_at = v + page * v_page + kv_head * v_head + slot * v_slot
        values = tl.load(
            v_at[:, None] + dim[None, :] * v_dim, mask=seen[:, None] & known[None, :], other=0.0
        )
        out = out * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
        best = higher

    safe = tl.where(total > 0, total, 1.0)
    place = (sequence.to(tl.int64) * heads + head) * SPLITS + split
    written = (row < GROUP)[:, None] & known[None, :]
    tl.store(parts + place[:, None] * DIM + dim[None, :], out / safe[:, None], mask=written)
    lse = tl.where(total > 0, best + tl.log2(safe), float("-inf"))
    tl.store(sums + place, lse, mask=row < GROUP)


@triton.jit
def merge_kernel(
    parts,
    sums,
    out,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_UP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, WIDTH)
    split = tl.arange(0, SPLITS_UP)
    lse = tl.load(sums + row * SPLITS + split, mask=split < SPLITS, other=float("-inf"))
    best = tl.max(lse, 0)
    weights = tl.where(lse == float("-inf"), 0.0, tl.exp2(lse - best))
    every = tl.load(
        parts + (row * SPLITS + split)[:, None] * DIM + dim[None, :],
        mask=(split < SPLITS)[:, None] & (dim < DIM)[None, :],
        other=0.0,
    )
    every = tl.where(weights[:, None] > 0, every, 0.0)
    total = tl.sum(weights, 0)
    mixed = tl.sum(every * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(out + row * DIM + dim, mixed.to(out.dtype.element_ty), mask=dim < DIM)


def splits_for(programs: int, longest: int, device: torch.device) -> int:
    """Parts of the context, so that all SMs have work and no part is under 256 keys."""
    processors = 16
    if device.type == "cuda":
        processors = torch.cuda.get_device_properties(device).multi_processor_count
    wanted = -(-4 * processors // max(1, programs))
    return max(1, min(wanted, -(-longest // 256), 64))


def merge(parts: torch.Tensor, sums: torch.Tensor, out: torch.Tensor) -> None:
    """[rows, splits, dim] in fp32 with their log2 sums, into out [rows, dim]."""
    rows, splits, dim = parts.shape
    merge_kernel[(rows,)](
        parts,
        sums,
        out,
        DIM=dim,
        WIDTH=triton.next_power_of_2(dim),
        SPLITS=splits,
        SPLITS_UP=triton.next_power_of_2(splits),
        num_warps=4,
    )


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    longest: int,
    scale: float,
    *,
    kv_heads: int,
    page: int,
    k_strides: tuple[int, int, int, int],
    v_strides: tuple[int, int, int, int],
    x: int,
) -> torch.Tensor:
    """q [n, heads, dim]; strides of k by page, head, slot and group of x values; of v by dim."""
    sequences, heads, dim = q.shape
    group = heads // kv_heads
    splits = splits_for(sequences * kv_heads, longest, q.device)
    parts = torch.empty(sequences * heads, splits, dim, dtype=torch.float32, device=q.device)
    sums = torch.empty(sequences * heads, splits, dtype=torch.float32, device=q.device)
    width = triton.next_power_of_2(dim)
    attend_kernel[(sequences, kv_heads, splits)](
        q,
        k,
        v,
        table,
        lengths,
        parts,
        sums,
        scale * LOG2_E,
        q.stride(0),
        q.stride(1),
        *k_strides,
        *v_strides,
        table.stride(0),
        heads=heads,
        GROUP=group,
        DIM=dim,
        WIDTH=width,
        X=x,
        PAGE=page,
        SPLITS=splits,
        ROWS=max(16, triton.next_power_of_2(group)),
        KEYS=KEYS,
        num_warps=4,
        num_stages=3 if width <= 128 else 2,
    )
    out = torch.empty_like(q)
    merge(parts, sums, out.view(-1, dim))
    return out
