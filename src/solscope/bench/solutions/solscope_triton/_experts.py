"""Both products of an MoE layer on Hopper: one group of warps copies, two multiply.

A program takes tile after tile of 128 rows of one expert. Copies run ahead of the products by a
few stages, also from one tile to the next. Rows of tokens are gathered by 16 bytes at a time;
weights, and the activation that the first product leaves in the order of the blocks, come as whole
tiles. In fp8 every 128 values have scales: their sums are scaled and added up in fp32, and the
activation is quantized again, with a scale per row and 128 values.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LOG2_E = gl.constexpr(1.4426950408889634)
ROWS = 128
"""Rows of a tile: 64 for each group of warps."""
UP_COLUMNS = 128
"""Columns of gate and of up in a tile, and values per scale."""


@gluon.jit
def copy_up(
    x,
    w_source,
    a_tiles,
    b_tiles,
    full,
    empty,
    slots_of,
    experts_of,
    total,
    slots,
    top_k,
    hidden,
    inner,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Rows of tokens gathered, gate and up rows of the expert's weights: stage after stage."""
    BYTES: gl.constexpr = 1 if FP8 else 2
    COPY: gl.constexpr = gl.BlockedLayout([1, 16 // BYTES], [4, 8], [4, 1], [1, 0])
    across = (inner + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    steps = hidden // STEP
    deep = gl.arange(0, STEP, gl.SliceLayout(0, COPY))
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        block = tile // across
        column = tile % across * COLUMNS
        first = gl.load(experts_of + block) * 2 * inner + column
        row = gl.arange(0, 64, gl.SliceLayout(1, COPY))
        low = gl.load(slots_of + block * 128 + row)
        high = gl.load(slots_of + block * 128 + 64 + row)
        low = gl.minimum(low, slots - 1) // top_k
        high = gl.minimum(high, slots - 1) // top_k
        low_rows = low.to(gl.int64)[:, None] * hidden + deep[None, :]
        high_rows = high.to(gl.int64)[:, None] * hidden + deep[None, :]
        for step in range(steps):
            stage = count % STAGES
            mbarrier.wait(empty.index(stage), ((count // STAGES) & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, 2 * COLUMNS * STEP * BYTES)
            tma.async_copy_global_to_shared(
                w_source, [first, step * STEP], bar, b_tiles.index(2 * stage)
            )
            tma.async_copy_global_to_shared(
                w_source, [first + inner, step * STEP], bar, b_tiles.index(2 * stage + 1)
            )
            async_copy.async_copy_global_to_shared(
                a_tiles.index(2 * stage), x + low_rows + step * STEP
            )
            async_copy.async_copy_global_to_shared(
                a_tiles.index(2 * stage + 1), x + high_rows + step * STEP
            )
            async_copy.mbarrier_arrive(bar, increment_count=False)
            count += 1
    async_copy.wait_group(0)


@gluon.jit
def multiply_up(
    out,
    out_scale,
    x_scale,
    w_scale,
    a_tiles,
    b_tiles,
    full,
    empty,
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
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    WHICH: gl.constexpr,
):
    """64 rows of a tile: gate and up, and their activation, in the order of the blocks."""
    K: gl.constexpr = 32 if FP8 else 16
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, K])
    OUT: gl.constexpr = gl.BlockedLayout(
        [1, 16 if FP8 else 8], [4 if FP8 else 2, 8 if FP8 else 16], [4, 1], [1, 0]
    )
    across = (inner + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    steps = hidden // STEP
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        block = tile // across
        column = tile % across * COLUMNS
        # The second half of a block may be padding.
        used = gl.where(gl.load(slots_of + block * 128 + 64) < slots, 128, 64)
        gate = gl.zeros([64, COLUMNS], gl.float32, ACC)
        up = gl.zeros([64, COLUMNS], gl.float32, ACC)
        if FP8:
            scales = w_scale + gl.load(experts_of + block).to(gl.int64) * w_scale_expert
            gate_scales = scales + (column // 128) * w_scale_row
            up_scales = scales + ((inner + column) // 128) * w_scale_row
            line = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, ACC))
            token = gl.minimum(gl.load(slots_of + line), slots - 1) // top_k
            row_scales = x_scale + token.to(gl.int64) * x_scale_row
            # The scales of the next step are on their way while this one is multiplied.
            next_rows = gl.load(row_scales)
            next_gate = gl.load(gate_scales)
            next_up = gl.load(up_scales)
            for step in range(steps):
                stage = count % STAGES
                gate_rows = next_rows * next_gate
                up_rows = next_rows * next_up
                later = gl.minimum(step + 1, steps - 1)
                next_rows = gl.load(row_scales + later)
                next_gate = gl.load(gate_scales + later)
                next_up = gl.load(up_scales + later)
                mbarrier.wait(full.index(stage), (count // STAGES) & 1)
                fence_async_shared()
                if used > 64 * WHICH:
                    left = a_tiles.index(2 * stage + WHICH)
                    zero = gl.zeros([64, COLUMNS], gl.float32, ACC)
                    partial = warpgroup_mma(
                        left, b_tiles.index(2 * stage).permute((1, 0)), zero, use_acc=False
                    )
                    gate += partial * gate_rows[:, None]
                    zero = gl.zeros([64, COLUMNS], gl.float32, ACC)
                    partial = warpgroup_mma(
                        left, b_tiles.index(2 * stage + 1).permute((1, 0)), zero, use_acc=False
                    )
                    mbarrier.arrive(empty.index(stage))
                    up += partial * up_rows[:, None]
                else:
                    mbarrier.arrive(empty.index(stage))
                count += 1
        else:
            for step in range(steps):
                stage = count % STAGES
                mbarrier.wait(full.index(stage), (count // STAGES) & 1)
                fence_async_shared()
                left = a_tiles.index(2 * stage + WHICH)
                gate = warpgroup_mma(
                    left, b_tiles.index(2 * stage).permute((1, 0)), gate, is_async=True
                )
                up = warpgroup_mma(
                    left, b_tiles.index(2 * stage + 1).permute((1, 0)), up, is_async=True
                )
                gate, up = warpgroup_mma_wait(2, deps=[gate, up])
                if step > 0:
                    mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES))
                count += 1
            gate, up = warpgroup_mma_wait(0, deps=[gate, up])
            mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES))
        active = gate / (1.0 + gl.exp2(-LOG2_E * gate)) * up
        if FP8:
            # One scale per row and 128 columns.
            line = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, ACC))
            scale = gl.maximum(gl.max(gl.abs(active), 1), 1e-30) / 448.0
            gl.store(out_scale + line.to(gl.int64) * across + tile % across, scale)
            active = active / scale[:, None]
        active = gl.convert_layout(active.to(out.dtype.element_ty), OUT)
        row = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, OUT))
        target = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, OUT))
        place = row.to(gl.int64)[:, None] * inner + target[None, :]
        gl.store(out + place, active, mask=(target < inner)[None, :])


@gluon.jit
def up_kernel(
    x,
    x_scale,
    w_source,
    w_scale,
    out,
    out_scale,
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
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
):
    dtype: gl.constexpr = x.dtype.element_ty
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, 64, STEP], WIDE)
    b_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, COLUMNS, STEP], WIDE)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=129)
        mbarrier.init(empty.index(stage), count=2)
    gl.warp_specialize(
        [
            (
                multiply_up,
                (
                    out,
                    out_scale,
                    x_scale,
                    w_scale,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
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
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                    0,
                ),
            ),
            (
                multiply_up,
                (
                    out,
                    out_scale,
                    x_scale,
                    w_scale,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
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
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                    1,
                ),
            ),
            (
                copy_up,
                (
                    x,
                    w_source,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
                    slots_of,
                    experts_of,
                    total,
                    slots,
                    top_k,
                    hidden,
                    inner,
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                ),
            ),
        ],
        [4, 4],
        [216, 72],
    )


@gluon.jit
def copy_down(
    x_source,
    w_source,
    a_tiles,
    b_tiles,
    full,
    empty,
    experts_of,
    total,
    hidden,
    inner,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Tiles of the activation and of the expert's weights: stage after stage."""
    BYTES: gl.constexpr = 1 if FP8 else 2
    across = (hidden + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        block = tile // across
        column = tile % across * COLUMNS
        first = gl.load(experts_of + block) * hidden + column
        for step in range(inner // STEP):
            stage = count % STAGES
            mbarrier.wait(empty.index(stage), ((count // STAGES) & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, (128 + COLUMNS) * STEP * BYTES)
            for half in gl.static_range(2):
                tma.async_copy_global_to_shared(
                    x_source,
                    [block * 128 + 64 * half, step * STEP],
                    bar,
                    a_tiles.index(2 * stage + half),
                )
            for half in gl.static_range(COLUMNS // 128):
                tma.async_copy_global_to_shared(
                    w_source,
                    [first + 128 * half, step * STEP],
                    bar,
                    b_tiles.index(COLUMNS // 128 * stage + half),
                )
            count += 1


@gluon.jit
def multiply_down(
    out,
    x_scale,
    w_scale,
    weights,
    a_tiles,
    b_tiles,
    full,
    empty,
    slots_of,
    experts_of,
    total,
    slots,
    hidden,
    inner,
    w_scale_expert,
    w_scale_row,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    WHICH: gl.constexpr,
):
    """64 rows of a tile, weighted, each to the place of its slot."""
    dtype: gl.constexpr = a_tiles.dtype
    K: gl.constexpr = 32 if FP8 else 16
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, K])
    OUT: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [4, 1], [1, 0])
    across = (hidden + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    steps = inner // STEP
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        block = tile // across
        column = tile % across * COLUMNS
        used = gl.where(gl.load(slots_of + block * 128 + 64) < slots, 128, 64)
        sums = gl.zeros([64, COLUMNS], gl.float32, ACC)
        if FP8:
            expert = gl.load(experts_of + block).to(gl.int64)
            scales = w_scale + expert * w_scale_expert + (column // 128) * w_scale_row
            line = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, ACC))
            line_scales = x_scale + line.to(gl.int64) * steps
            next_rows = gl.load(line_scales)
            next_scale = gl.load(scales)
            for step in range(steps):
                stage = count % STAGES
                rows = next_rows * next_scale
                later = gl.minimum(step + 1, steps - 1)
                next_rows = gl.load(line_scales + later)
                next_scale = gl.load(scales + later)
                mbarrier.wait(full.index(stage), (count // STAGES) & 1)
                if used > 64 * WHICH:
                    zero = gl.zeros([64, COLUMNS], gl.float32, ACC)
                    right = b_tiles.index(stage).permute((1, 0))
                    partial = warpgroup_mma(
                        a_tiles.index(2 * stage + WHICH), right, zero, use_acc=False
                    )
                    mbarrier.arrive(empty.index(stage))
                    sums += partial * rows[:, None]
                else:
                    mbarrier.arrive(empty.index(stage))
                count += 1
        else:
            for step in range(steps):
                stage = count % STAGES
                mbarrier.wait(full.index(stage), (count // STAGES) & 1)
                right = b_tiles._reinterpret(dtype, [STAGES, COLUMNS, STEP], WIDE).index(stage)
                sums = warpgroup_mma(
                    a_tiles.index(2 * stage + WHICH), right.permute((1, 0)), sums, is_async=True
                )
                sums = warpgroup_mma_wait(1, deps=[sums])
                if step > 0:
                    mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES))
                count += 1
            sums = warpgroup_mma_wait(0, deps=[sums])
            mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES))
        slot = gl.load(
            slots_of + block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, ACC))
        )
        share = gl.load(weights + slot, mask=slot < slots, other=0.0)
        made = gl.convert_layout((sums * share[:, None]).to(out.dtype.element_ty), OUT)
        slot = gl.load(
            slots_of + block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, OUT))
        )
        target = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, OUT))
        place = slot.to(gl.int64)[:, None] * hidden + target[None, :]
        gl.store(out + place, made, mask=(slot < slots)[:, None] & (target < hidden)[None, :])


@gluon.jit
def down_kernel(
    x_source,
    x_scale,
    w_source,
    w_scale,
    weights,
    out,
    slots_of,
    experts_of,
    total,
    slots,
    hidden,
    inner,
    w_scale_expert,
    w_scale_row,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
):
    dtype: gl.constexpr = x_source.dtype
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, 64, STEP], WIDE)
    b_tiles = gl.allocate_shared_memory(dtype, [COLUMNS // 128 * STAGES, 128, STEP], WIDE)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    gl.warp_specialize(
        [
            (
                multiply_down,
                (
                    out,
                    x_scale,
                    w_scale,
                    weights,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
                    slots_of,
                    experts_of,
                    total,
                    slots,
                    hidden,
                    inner,
                    w_scale_expert,
                    w_scale_row,
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                    0,
                ),
            ),
            (
                multiply_down,
                (
                    out,
                    x_scale,
                    w_scale,
                    weights,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
                    slots_of,
                    experts_of,
                    total,
                    slots,
                    hidden,
                    inner,
                    w_scale_expert,
                    w_scale_row,
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                    1,
                ),
            ),
            (
                copy_down,
                (
                    x_source,
                    w_source,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
                    experts_of,
                    total,
                    hidden,
                    inner,
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                ),
            ),
        ],
        [4, 1],
        [232, 40],
    )


def supports(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, slots: int) -> bool:
    """Hopper, dense operands, whole steps, and blocks that are not mostly padding."""
    hidden, inner = x.shape[1], w2.shape[2]
    step = 128 if x.dtype.itemsize == 1 else 64
    return (
        x.is_cuda
        and torch.cuda.get_device_capability(x.device)[0] == 9
        and x.dtype in (torch.bfloat16, torch.float8_e4m3fn)
        and hidden % step == 0
        and inner % UP_COLUMNS == 0
        and hidden % UP_COLUMNS == 0
        and slots >= len(w1) * (ROWS if step == 64 else ROWS // 2)
        and all(tensor.is_contiguous() for tensor in (x, w1, w2))
    )


def products(
    x: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    blocks: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    slots: int,
    scales: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """A weighted row of the layer's output per slot, [slots, hidden] in bf16."""
    hidden, inner = x.shape[1], w2.shape[2]
    fp8 = scales is not None
    padded = len(blocks[0])
    active = torch.empty(padded, inner, dtype=x.dtype, device=x.device)
    routed = torch.empty(slots, hidden, dtype=torch.bfloat16, device=x.device)
    x_scale, w1_scale, w2_scale = scales if scales is not None else (weights, weights, weights)
    active_scale = weights
    if fp8:
        active_scale = torch.empty(padded, inner // UP_COLUMNS, device=x.device)
    step = 128 if fp8 else 64
    layout = gl.NVMMASharedLayout(128, 8 if fp8 else 16)

    def tiles(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
        flat = tensor.view(-1, tensor.shape[-1])
        return TensorDescriptor.from_tensor(flat, [rows, step], layout)

    programs = (torch.cuda.get_device_properties(x.device).multi_processor_count,)
    up_kernel[programs](
        x,
        x_scale,
        tiles(w1, UP_COLUMNS),
        w1_scale,
        active,
        active_scale,
        *blocks,
        slots,
        slots // len(x),
        hidden,
        inner,
        x_scale.stride(0),
        w1_scale.stride(0),
        w1_scale.stride(1),
        FP8=fp8,
        STEP=step,
        COLUMNS=UP_COLUMNS,
        STAGES=4,
        num_warps=4,
    )
    down_kernel[programs](
        tiles(active, 64),
        active_scale,
        tiles(w2, 128),
        w2_scale,
        weights,
        routed,
        *blocks,
        slots,
        hidden,
        inner,
        w2_scale.stride(0),
        w2_scale.stride(1),
        FP8=fp8,
        STEP=step,
        COLUMNS=128 if fp8 else 256,
        STAGES=6 if fp8 else 4,
        num_warps=4,
    )
    return routed
