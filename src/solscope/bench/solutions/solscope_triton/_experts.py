"""Both products of an MoE layer on Hopper: one group of warps copies, two multiply.

A program takes tile after tile of 128 rows of one expert. Copies run ahead of the products by a
few stages, also from one tile to the next. Rows of tokens are gathered by 16 bytes at a time;
weights, and the activation that the first product leaves in the order of the blocks, come as whole
tiles. In fp8 every 128 values have scales: their sums are scaled and added up in fp32, and the
activation is quantized again, with a scale per row and 128 values. There tiles differ in length,
as half of a tile may be padding: a program takes the next tile that is left.
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
DOWN_COLUMNS = 256
GROUP = 8
"""Tiles of one block of rows that follow each other. Few, so that experts with few rows, which wait
for memory, run beside those with many, which multiply; enough that the rows stay in the L2."""


@gluon.jit
def place_of(tile, blocks, across, GROUP: gl.constexpr):
    """Block and column: all blocks take their turn with `GROUP` columns, then with the next."""
    turn = tile // (blocks * GROUP)
    rest = tile - turn * blocks * GROUP
    wide = gl.minimum(GROUP, across - turn * GROUP)
    return rest // wide, turn * GROUP + rest % wide


@gluon.jit
def give_tile(counter, tile, turn, ring, told, heard, DYNAMIC: gl.constexpr, WARPS: gl.constexpr):
    """The next tile that no program has, told to the warps that multiply."""
    if DYNAMIC:
        ONE: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
        tile = gl.num_programs(0) + gl.atomic_add(counter, 1)
        mbarrier.wait(heard.index(turn % 2), ((turn // 2) & 1) ^ 1)
        ring.index(turn % 2).store(gl.full([1], tile, gl.int32, ONE))
        mbarrier.arrive(told.index(turn % 2))
    else:
        tile += gl.num_programs(0)
    return tile


@gluon.jit
def hear_tile(tile, turn, ring, told, heard, DYNAMIC: gl.constexpr):
    """The tile that `give_tile` told of."""
    if DYNAMIC:
        ONE: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        mbarrier.wait(told.index(turn % 2), (turn // 2) & 1)
        tile = gl.max(ring.index(turn % 2).load(ONE), 0)
        mbarrier.arrive(heard.index(turn % 2))
    else:
        tile += gl.num_programs(0)
    return tile


@gluon.jit
def copy_up(
    x,
    w_source,
    a_tiles,
    b_tiles,
    full,
    empty,
    ring,
    told,
    heard,
    counter,
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
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
):
    """Rows of tokens gathered, gate and up rows of the expert's weights: stage after stage."""
    BYTES: gl.constexpr = 1 if FP8 else 2
    COPY: gl.constexpr = gl.BlockedLayout([1, 16 // BYTES], [4, 8], [4, 1], [1, 0])
    across = (inner + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    steps = hidden // STEP
    deep = gl.arange(0, STEP, gl.SliceLayout(0, COPY))
    count = 0
    turn = 0
    tile = gl.program_id(0)
    while tile < tiles:
        block, part = place_of(tile, tiles // across, across, GROUP)
        column = part * COLUMNS
        first = gl.load(experts_of + block) * 2 * inner + column
        used = gl.where(gl.load(slots_of + block * 128 + 64) < slots, 128, 64)
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
            if used > 64:
                async_copy.async_copy_global_to_shared(
                    a_tiles.index(2 * stage + 1),
                    x + high_rows + step * STEP,
                )
            async_copy.mbarrier_arrive(bar, increment_count=False)
            count += 1
        tile = give_tile(counter, tile, turn, ring, told, heard, DYNAMIC, 4)
        turn += 1
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
    ring,
    told,
    heard,
    counter,
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
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
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
    turn = 0
    tile = gl.program_id(0)
    while tile < tiles:
        block, part = place_of(tile, tiles // across, across, GROUP)
        column = part * COLUMNS
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
            if used > 64 * WHICH:
                for step in range(steps):
                    stage = (count + step) % STAGES
                    mbarrier.wait(full.index(stage), ((count + step) // STAGES) & 1)
                    fence_async_shared()
                    left = a_tiles.index(2 * stage + WHICH)
                    partial = warpgroup_mma(
                        left,
                        b_tiles.index(2 * stage).permute((1, 0)),
                        gl.zeros([64, COLUMNS], gl.float32, ACC),
                        use_acc=False,
                        is_async=True,
                    )
                    # Behind the fence, which would wait for them.
                    rows = gl.load(row_scales + step)
                    gate_scale = gl.load(gate_scales + step)
                    up_scale = gl.load(up_scales + step)
                    partial = warpgroup_mma_wait(0, deps=[partial])
                    gate += partial * (rows * gate_scale)[:, None]
                    partial = warpgroup_mma(
                        left,
                        b_tiles.index(2 * stage + 1).permute((1, 0)),
                        partial,
                        use_acc=False,
                    )
                    mbarrier.arrive(empty.index(stage))
                    up += partial * (rows * up_scale)[:, None]
            else:
                for step in range(steps):
                    stage = (count + step) % STAGES
                    mbarrier.wait(full.index(stage), ((count + step) // STAGES) & 1)
                    mbarrier.arrive(empty.index(stage))
            count += steps
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
            gl.store(out_scale + line.to(gl.int64) * across + part, scale)
            active = active / scale[:, None]
        active = gl.convert_layout(active.to(out.dtype.element_ty), OUT)
        row = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, OUT))
        target = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, OUT))
        place = row.to(gl.int64)[:, None] * inner + target[None, :]
        gl.store(out + place, active, mask=(target < inner)[None, :])
        tile = hear_tile(tile, turn, ring, told, heard, DYNAMIC)
        turn += 1


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
    counter,
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
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
):
    dtype: gl.constexpr = x.dtype.element_ty
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, 64, STEP], WIDE)
    b_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, COLUMNS, STEP], WIDE)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    told = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    heard = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    ring = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for turn in gl.static_range(2):
        mbarrier.init(told.index(turn), count=1)
        mbarrier.init(heard.index(turn), count=2)
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
                    ring,
                    told,
                    heard,
                    counter,
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
                    GROUP,
                    DYNAMIC,
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
                    ring,
                    told,
                    heard,
                    counter,
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
                    GROUP,
                    DYNAMIC,
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
                    ring,
                    told,
                    heard,
                    counter,
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
                    GROUP,
                    DYNAMIC,
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
    ring,
    told,
    heard,
    counter,
    slots_of,
    experts_of,
    total,
    slots,
    hidden,
    inner,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
):
    """Tiles of the activation and of the expert's weights: stage after stage."""
    BYTES: gl.constexpr = 1 if FP8 else 2
    across = (hidden + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    count = 0
    turn = 0
    tile = gl.program_id(0)
    while tile < tiles:
        block, part = place_of(tile, tiles // across, across, GROUP)
        column = part * COLUMNS
        first = gl.load(experts_of + block) * hidden + column
        used = gl.where(gl.load(slots_of + block * 128 + 64) < slots, 128, 64)
        for step in range(inner // STEP):
            stage = count % STAGES
            mbarrier.wait(empty.index(stage), ((count // STAGES) & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, (128 + COLUMNS) * STEP * BYTES, pred=used > 64)
            mbarrier.expect(bar, (64 + COLUMNS) * STEP * BYTES, pred=used <= 64)
            tma.async_copy_global_to_shared(
                x_source, [block * 128, step * STEP], bar, a_tiles.index(2 * stage)
            )
            tma.async_copy_global_to_shared(
                x_source,
                [block * 128 + 64, step * STEP],
                bar,
                a_tiles.index(2 * stage + 1),
                pred=used > 64,
            )
            for half in gl.static_range(COLUMNS // 128):
                tma.async_copy_global_to_shared(
                    w_source,
                    [first + 128 * half, step * STEP],
                    bar,
                    b_tiles.index(COLUMNS // 128 * stage + half),
                )
            count += 1
        tile = give_tile(counter, tile, turn, ring, told, heard, DYNAMIC, 1)
        turn += 1


@gluon.jit
def write_rows(out, sums, weights, slots_of, slots, column, hidden):
    """Rows, weighted, to the places of their slots."""
    ACC: gl.constexpr = sums.type.layout
    COLUMNS: gl.constexpr = sums.shape[1]
    OUT: gl.constexpr = gl.BlockedLayout([1, 8], [256 // COLUMNS, COLUMNS // 8], [4, 1], [1, 0])
    slot = gl.load(slots_of + gl.arange(0, 64, gl.SliceLayout(1, ACC)))
    share = gl.load(weights + slot, mask=slot < slots, other=0.0)
    made = gl.convert_layout((sums * share[:, None]).to(out.dtype.element_ty), OUT)
    slot = gl.load(slots_of + gl.arange(0, 64, gl.SliceLayout(1, OUT)))
    target = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, OUT))
    place = slot.to(gl.int64)[:, None] * hidden + target[None, :]
    gl.store(out + place, made, mask=(slot < slots)[:, None] & (target < hidden)[None, :])


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
    ring,
    told,
    heard,
    counter,
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
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
    WHICH: gl.constexpr,
):
    """64 rows of a tile, weighted, each to the place of its slot."""
    dtype: gl.constexpr = a_tiles.dtype
    K: gl.constexpr = 32 if FP8 else 16
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, K])
    HALF: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, K])
    across = (hidden + COLUMNS - 1) // COLUMNS
    tiles = gl.load(total) // 128 * across
    steps = inner // STEP
    count = 0
    turn = 0
    tile = gl.program_id(0)
    while tile < tiles:
        block, part = place_of(tile, tiles // across, across, GROUP)
        column = part * COLUMNS
        used = gl.where(gl.load(slots_of + block * 128 + 64) < slots, 128, 64)
        if FP8:
            expert = gl.load(experts_of + block).to(gl.int64)
            part_scale = w_scale + expert * w_scale_expert
            last = hidden // 128 - 1
            first_scales = part_scale + (column // 128) * w_scale_row
            second_scales = part_scale + gl.minimum(column // 128 + 1, last) * w_scale_row
            line = block * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, HALF))
            line_scales = x_scale + line.to(gl.int64) * steps
            if used > 64 * WHICH:
                first = gl.zeros([64, 128], gl.float32, HALF)
                second = gl.zeros([64, 128], gl.float32, HALF)
                for step in range(steps):
                    stage = (count + step) % STAGES
                    mbarrier.wait(full.index(stage), ((count + step) // STAGES) & 1)
                    left = a_tiles.index(2 * stage + WHICH)
                    partial = warpgroup_mma(
                        left,
                        b_tiles.index(2 * stage).permute((1, 0)),
                        gl.zeros([64, 128], gl.float32, HALF),
                        use_acc=False,
                        is_async=True,
                    )
                    rows = gl.load(line_scales + step)
                    first_scale = gl.load(first_scales + step)
                    second_scale = gl.load(second_scales + step)
                    partial = warpgroup_mma_wait(0, deps=[partial])
                    first += partial * (rows * first_scale)[:, None]
                    # In order, so that one set of registers is enough for both.
                    first = warpgroup_mma_wait(0, deps=[first])
                    partial = warpgroup_mma(
                        left,
                        b_tiles.index(2 * stage + 1).permute((1, 0)),
                        partial,
                        use_acc=False,
                    )
                    mbarrier.arrive(empty.index(stage))
                    second += partial * (rows * second_scale)[:, None]
                write_rows(
                    out, first, weights, slots_of + block * 128 + WHICH * 64, slots, column, hidden
                )
                write_rows(
                    out,
                    second,
                    weights,
                    slots_of + block * 128 + WHICH * 64,
                    slots,
                    column + 128,
                    hidden,
                )
            else:
                for step in range(steps):
                    stage = (count + step) % STAGES
                    mbarrier.wait(full.index(stage), ((count + step) // STAGES) & 1)
                    mbarrier.arrive(empty.index(stage))
            count += steps
        else:
            sums = gl.zeros([64, COLUMNS], gl.float32, ACC)
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
            write_rows(
                out, sums, weights, slots_of + block * 128 + WHICH * 64, slots, column, hidden
            )
        tile = hear_tile(tile, turn, ring, told, heard, DYNAMIC)
        turn += 1


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
    counter,
    slots,
    hidden,
    inner,
    w_scale_expert,
    w_scale_row,
    FP8: gl.constexpr,
    STEP: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    DYNAMIC: gl.constexpr,
):
    dtype: gl.constexpr = x_source.dtype
    BITS: gl.constexpr = 8 if FP8 else 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, BITS)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_tiles = gl.allocate_shared_memory(dtype, [2 * STAGES, 64, STEP], WIDE)
    b_tiles = gl.allocate_shared_memory(dtype, [COLUMNS // 128 * STAGES, 128, STEP], WIDE)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    told = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    heard = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    ring = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for turn in gl.static_range(2):
        mbarrier.init(told.index(turn), count=1)
        mbarrier.init(heard.index(turn), count=2)
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
                    ring,
                    told,
                    heard,
                    counter,
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
                    GROUP,
                    DYNAMIC,
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
                    ring,
                    told,
                    heard,
                    counter,
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
                    GROUP,
                    DYNAMIC,
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
                    ring,
                    told,
                    heard,
                    counter,
                    slots_of,
                    experts_of,
                    total,
                    slots,
                    hidden,
                    inner,
                    FP8,
                    STEP,
                    COLUMNS,
                    STAGES,
                    GROUP,
                    DYNAMIC,
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

    first = second = blocks[2]
    if fp8:
        first, second = torch.zeros(2, dtype=torch.int32, device=x.device).unbind()
    programs = (torch.cuda.get_device_properties(x.device).multi_processor_count,)
    up_kernel[programs](
        x,
        x_scale,
        tiles(w1, UP_COLUMNS),
        w1_scale,
        active,
        active_scale,
        *blocks,
        first,
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
        GROUP=GROUP,
        DYNAMIC=fp8,
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
        second,
        slots,
        hidden,
        inner,
        w2_scale.stride(0),
        w2_scale.stride(1),
        FP8=fp8,
        STEP=step,
        COLUMNS=DOWN_COLUMNS,
        STAGES=4,
        GROUP=GROUP,
        DYNAMIC=fp8,
        num_warps=4,
    )
    return routed
