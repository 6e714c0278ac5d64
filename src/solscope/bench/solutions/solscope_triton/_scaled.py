"""fp8 GEMM with block scales on Hopper: one warp copies, two groups of warps multiply.

A program takes tile after tile of 128 rows and 256 columns, 64 rows for each group of warps. Copies
run ahead of the products by a few stages, also from one tile to the next. Sums of 128 values are
scaled and added up in fp32. The groups give the tensor cores to each other: while one scales its
sums, the other multiplies.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

STEP = 128
"""Values per scale, and per step."""
ROWS = 128
COLUMNS = 256
STAGES = 3
"""As many as leave room for the results."""


@gluon.jit
def copy_tiles(
    a_source,
    b_source,
    a_tiles,
    b_tiles,
    full,
    empty,
    tiles,
    across,
    steps,
    STAGES: gl.constexpr,
):
    """Tiles of both operands, stage after stage."""
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile // across * 128
        column = tile % across * 256
        for step in range(steps):
            stage = count % STAGES
            mbarrier.wait(empty.index(stage), ((count // STAGES) & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, (128 + 256) * 128)
            for half in gl.static_range(2):
                tma.async_copy_global_to_shared(
                    a_source, [row + 64 * half, step * 128], bar, a_tiles.index(2 * stage + half)
                )
            for half in gl.static_range(2):
                tma.async_copy_global_to_shared(
                    b_source,
                    [column + 128 * half, step * 128],
                    bar,
                    b_tiles.index(2 * stage + half),
                )
            count += 1


@gluon.jit
def multiply(a, b, partial, turns, WHICH: gl.constexpr, PHASE: gl.constexpr):
    """Start a product when it is this group's turn."""
    mbarrier.wait(turns.index(WHICH), PHASE)
    partial = warpgroup_mma(a, b.permute((1, 0)), partial, use_acc=False, is_async=True)
    mbarrier.arrive(turns.index(1 - WHICH))
    return partial


@gluon.jit
def write(target, sums, buffer, row, column):
    """Send 64 rows of 128 columns away; whoever fills the buffer next waits until it is read."""
    tma.store_wait(0)
    buffer.store(sums.to(buffer.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(target, [row, column], buffer)


@gluon.jit
def multiply_tiles(
    target,
    a_scale,
    b_scale,
    a_tiles,
    b_tiles,
    out_tiles,
    full,
    empty,
    turns,
    tiles,
    across,
    steps,
    m,
    n,
    a_scale_row,
    b_scale_row,
    STAGES: gl.constexpr,
    WHICH: gl.constexpr,
):
    """64 rows of every tile."""
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 32])
    buffer = out_tiles.index(WHICH)
    partial = gl.zeros([64, 128], gl.float32, ACC)
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        first = tile // across * 128 + 64 * WHICH
        column = tile % across * 256
        row = gl.minimum(first + gl.arange(0, 64, gl.SliceLayout(1, ACC)), m - 1)
        row_scales = a_scale + row.to(gl.int64) * a_scale_row
        left_scales = b_scale + (column // 128) * b_scale_row
        right_scales = b_scale + gl.minimum(column // 128 + 1, (n - 1) // 128) * b_scale_row
        left = gl.zeros([64, 128], gl.float32, ACC)
        right = gl.zeros([64, 128], gl.float32, ACC)
        for step in range(steps - 1):
            stage = count % STAGES
            mbarrier.wait(full.index(stage), (count // STAGES) & 1)
            a = a_tiles.index(2 * stage + WHICH)
            partial = multiply(a, b_tiles.index(2 * stage), partial, turns, WHICH, 0)
            rows = gl.load(row_scales + step)
            left_scale = gl.load(left_scales + step)
            right_scale = gl.load(right_scales + step)
            partial = warpgroup_mma_wait(0, deps=[partial])
            left += partial * (rows * left_scale)[:, None]
            # In order, so that one set of registers is enough for both.
            left = warpgroup_mma_wait(0, deps=[left])
            partial = multiply(a, b_tiles.index(2 * stage + 1), partial, turns, WHICH, 1)
            partial = warpgroup_mma_wait(0, deps=[partial])
            mbarrier.arrive(empty.index(stage))
            right += partial * (rows * right_scale)[:, None]
            count += 1
        # The last step: what is done is sent away while the rest is multiplied.
        stage = count % STAGES
        mbarrier.wait(full.index(stage), (count // STAGES) & 1)
        a = a_tiles.index(2 * stage + WHICH)
        partial = multiply(a, b_tiles.index(2 * stage), partial, turns, WHICH, 0)
        rows = gl.load(row_scales + steps - 1)
        left_scale = gl.load(left_scales + steps - 1)
        right_scale = gl.load(right_scales + steps - 1)
        partial = warpgroup_mma_wait(0, deps=[partial])
        left += partial * (rows * left_scale)[:, None]
        left = warpgroup_mma_wait(0, deps=[left])
        partial = multiply(a, b_tiles.index(2 * stage + 1), partial, turns, WHICH, 1)
        write(target, left, buffer, first, column)
        partial = warpgroup_mma_wait(0, deps=[partial])
        mbarrier.arrive(empty.index(stage))
        right += partial * (rows * right_scale)[:, None]
        count += 1
        write(target, right, buffer, first, column + 128)
    tma.store_wait(0)


@gluon.jit
def scaled_kernel(
    a_source,
    b_source,
    target,
    a_scale,
    b_scale,
    m,
    n,
    steps,
    a_scale_row,
    b_scale_row,
    STAGES: gl.constexpr,
):
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 8)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_tiles = gl.allocate_shared_memory(a_source.dtype, [2 * STAGES, 64, 128], WIDE)
    b_tiles = gl.allocate_shared_memory(b_source.dtype, [2 * STAGES, 128, 128], WIDE)
    out_tiles = gl.allocate_shared_memory(target.dtype, [2, 64, 128], target.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    for group in gl.static_range(2):
        mbarrier.init(turns.index(group), count=1)
    mbarrier.arrive(turns.index(0))
    across = (n + 255) // 256
    tiles = (m + 127) // 128 * across
    gl.warp_specialize(
        [
            (
                multiply_tiles,
                (
                    target,
                    a_scale,
                    b_scale,
                    a_tiles,
                    b_tiles,
                    out_tiles,
                    full,
                    empty,
                    turns,
                    tiles,
                    across,
                    steps,
                    m,
                    n,
                    a_scale_row,
                    b_scale_row,
                    STAGES,
                    0,
                ),
            ),
            (
                multiply_tiles,
                (
                    target,
                    a_scale,
                    b_scale,
                    a_tiles,
                    b_tiles,
                    out_tiles,
                    full,
                    empty,
                    turns,
                    tiles,
                    across,
                    steps,
                    m,
                    n,
                    a_scale_row,
                    b_scale_row,
                    STAGES,
                    1,
                ),
            ),
            (
                copy_tiles,
                (
                    a_source,
                    b_source,
                    a_tiles,
                    b_tiles,
                    full,
                    empty,
                    tiles,
                    across,
                    steps,
                    STAGES,
                ),
            ),
        ],
        [4, 1],
        [232, 40],
    )


def supports(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Hopper, whole steps, and enough tiles for its processors."""
    (m, k), n = a.shape, b.shape[0]
    if not a.is_cuda or torch.cuda.get_device_capability(a.device)[0] != 9:
        return False
    tiles = -(-m // ROWS) * -(-n // COLUMNS)
    enough = tiles >= torch.cuda.get_device_properties(a.device).multi_processor_count
    dense = a.is_contiguous() and b.is_contiguous() and n % 16 == 0
    return enough and dense and k % STEP == 0 and a.dtype == b.dtype == torch.float8_e4m3fn


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Fill `out` with a bᵀ."""
    (m, k), n = a.shape, b.shape[0]
    codes = gl.NVMMASharedLayout(128, 8)
    results = gl.NVMMASharedLayout(128, 8 * out.itemsize)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    scaled_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [64, STEP], codes),
        TensorDescriptor.from_tensor(b, [128, STEP], codes),
        TensorDescriptor.from_tensor(out, [64, 128], results),
        a_scales,
        b_scales,
        m,
        n,
        k // STEP,
        a_scales.stride(0),
        b_scales.stride(0),
        STAGES=STAGES,
        num_warps=4,
    )
