"""Both products of an MoE layer over blocks of one expert, in bf16 or with fp8 weights in blocks.

The first product makes gate and up in one program and writes their activation; the second writes
one weighted row per route, which are then added up. On Hopper experts with many rows take the
kernels of `_experts.py`.
"""

import torch
import triton
import triton.language as tl
from _align import align

try:
    from _experts import ROWS, products, supports
except ImportError:  # A Triton without Gluon.
    supports = None

SCALED = 128
"""Values per scale of fp8 operands."""


@triton.jit
def up_kernel(
    x,
    w,
    out,
    x_scale,
    w_scale,
    slots_of,
    experts_of,
    total,
    slots,
    top_k,
    hidden,
    inner,
    x_scale_row,
    w_scale_expert,
    w_scale_row,
    FP8: tl.constexpr,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    column_block = tl.program_id(0)
    block = tl.program_id(1)
    if block * ROWS >= tl.load(total):
        return
    expert = tl.load(experts_of + block).to(tl.int64)
    slot = tl.load(slots_of + block * ROWS + tl.arange(0, ROWS))
    valid = slot < slots
    token = (slot // top_k).to(tl.int64)
    column = column_block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < inner
    depth = tl.arange(0, STEP)
    x_at = x + token[:, None] * hidden + depth[None, :]
    gate_at = w + (expert * 2 * inner + column)[None, :] * hidden + depth[:, None]
    up_at = gate_at + inner.to(tl.int64) * hidden
    gate = tl.zeros([ROWS, COLUMNS], tl.float32)
    up = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, hidden, STEP):
        deep = start + depth < hidden
        left = tl.load(x_at + start, mask=valid[:, None] & deep[None, :], other=0.0)
        first = tl.load(gate_at + start, mask=deep[:, None] & inside[None, :], other=0.0)
        second = tl.load(up_at + start, mask=deep[:, None] & inside[None, :], other=0.0)
        if FP8:
            group = start // SCALED
            rows = tl.load(x_scale + token * x_scale_row + group, mask=valid, other=0.0)
            scales = w_scale + expert * w_scale_expert + group
            gates = tl.load(scales + (column // SCALED) * w_scale_row, mask=inside, other=0.0)
            ups = tl.load(
                scales + ((inner + column) // SCALED) * w_scale_row, mask=inside, other=0.0
            )
            gate += tl.dot(left, first) * rows[:, None] * gates[None, :]
            up += tl.dot(left, second) * rows[:, None] * ups[None, :]
        else:
            gate = tl.dot(left, first, gate)
            up = tl.dot(left, second, up)
    active = gate * tl.sigmoid(gate) * up
    at = out + slot.to(tl.int64)[:, None] * inner + column[None, :]
    tl.store(at, active.to(out.dtype.element_ty), mask=valid[:, None] & inside[None, :])


@triton.jit
def down_kernel(
    x,
    w,
    out,
    w_scale,
    weights,
    slots_of,
    experts_of,
    total,
    slots,
    hidden,
    inner,
    w_scale_expert,
    w_scale_row,
    FP8: tl.constexpr,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    column_block = tl.program_id(0)
    block = tl.program_id(1)
    if block * ROWS >= tl.load(total):
        return
    expert = tl.load(experts_of + block).to(tl.int64)
    slot = tl.load(slots_of + block * ROWS + tl.arange(0, ROWS))
    valid = slot < slots
    wide = slot.to(tl.int64)
    column = column_block * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < hidden
    depth = tl.arange(0, STEP)
    x_at = x + wide[:, None] * inner + depth[None, :]
    w_at = w + (expert * hidden + column)[None, :] * inner + depth[:, None]
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, inner, STEP):
        deep = start + depth < inner
        left = tl.load(x_at + start, mask=valid[:, None] & deep[None, :], other=0.0)
        right = tl.load(w_at + start, mask=deep[:, None] & inside[None, :], other=0.0)
        if FP8:
            group = start // SCALED
            scales = w_scale + expert * w_scale_expert + (column // SCALED) * w_scale_row + group
            part = tl.dot(left, right.to(left.dtype))
            sums += part * tl.load(scales, mask=inside, other=0.0)[None, :]
        else:
            sums = tl.dot(left, right, sums)
    sums *= tl.load(weights + slot, mask=valid, other=0.0)[:, None]
    at = out + wide[:, None] * hidden + column[None, :]
    tl.store(at, sums.to(out.dtype.element_ty), mask=valid[:, None] & inside[None, :])


@triton.jit
def sum_kernel(x, out, hidden, factor, TOP_K: tl.constexpr, WIDTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = column < hidden
    total = tl.zeros([WIDTH], tl.float32)
    for route in tl.static_range(TOP_K):
        at = x + (token * TOP_K + route) * hidden + column
        total += tl.load(at, mask=inside, other=0.0).to(tl.float32)
    total *= factor
    tl.store(out + token * hidden + column, total.to(out.dtype.element_ty), mask=inside)


def add_routes(
    rows: torch.Tensor, top_k: int, dtype: torch.dtype, factor: float = 1.0
) -> torch.Tensor:
    """[tokens * top_k, hidden] to [tokens, hidden]."""
    tokens, hidden = len(rows) // top_k, rows.shape[1]
    out = torch.empty(tokens, hidden, dtype=dtype, device=rows.device)
    grid = (tokens, triton.cdiv(hidden, 1024))
    sum_kernel[grid](rows, out, hidden, float(factor), TOP_K=top_k, WIDTH=1024)
    return out


def experts(
    x: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    dtype: torch.dtype,
    scales: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """The MoE layer; `scales` of x, w1 and w2 where they are fp8."""
    hidden, top_k = x.shape[1], ids.shape[1]
    count, inner = w1.shape[0], w2.shape[2]
    fp8, slots = scales is not None, ids.numel()
    if supports is not None and supports(x, w1, w2, slots):
        blocks = align(ids, count, ROWS)
        return add_routes(products(x, w1, w2, weights, blocks, slots, scales), top_k, dtype)
    per_expert = slots / count
    rows = 16 if per_expert <= 16 else 32 if per_expert <= 32 else 64 if per_expert <= 192 else 128
    sorted_slots, experts_of, total = align(ids, count, rows)
    blocks = len(experts_of)
    active = torch.empty(slots, inner, dtype=torch.bfloat16, device=x.device)
    routed = torch.empty(slots, hidden, dtype=torch.bfloat16, device=x.device)
    x_scale, w1_scale, w2_scale = scales if scales is not None else (weights, weights, weights)
    columns, step = 64, 128 if fp8 else 64
    warps = 8 if rows == 128 else 4
    up_kernel[(triton.cdiv(inner, columns), blocks)](
        x,
        w1,
        active,
        x_scale,
        w1_scale,
        sorted_slots,
        experts_of,
        total,
        slots,
        top_k,
        hidden,
        inner,
        x_scale.stride(0),
        w1_scale.stride(0),
        w1_scale.stride(1),
        FP8=fp8,
        SCALED=SCALED,
        ROWS=rows,
        COLUMNS=columns,
        STEP=step,
        num_warps=warps,
        num_stages=3,
    )
    wide = 128
    down_kernel[(triton.cdiv(hidden, wide), blocks)](
        active,
        w2,
        routed,
        w2_scale,
        weights,
        sorted_slots,
        experts_of,
        total,
        slots,
        hidden,
        inner,
        w2_scale.stride(0),
        w2_scale.stride(1),
        FP8=fp8,
        SCALED=SCALED,
        ROWS=rows,
        COLUMNS=wide,
        STEP=step,
        num_warps=warps,
        num_stages=3,
    )
    return add_routes(routed, top_k, dtype)
