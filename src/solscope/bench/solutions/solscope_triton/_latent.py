"""Decode attention on latent rows for Hopper: four warps score, eight sum.

A program has up to 64 heads. Sums of 64 by 512 values are more than the registers of one group of
warps: two have half of the columns each. A third computes scores and weights of the next tile in
the meantime, and tells the two what to scale their sums by. A group of its own for copies would
leave too few registers to all: one that sums has the time for it. Work is shared out as in
`_decode.py`.
"""

import torch
import triton
from _decode import LOG2_E, merge, processors, programs_for, room_for_parts
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

# The kernel also has LATENT, ROPE, TILE and HEADS as plain numbers.
LATENT, ROPE = 512, 64
TILE = 64
"""Rows per step."""
HEADS = 64
"""Heads per program, at most."""
STAGES = 2


@gluon.jit
def add(a, b):
    return a + b


@gluon.jit
def share_of(lengths, sequences, MANY: gl.constexpr):
    """The steps of this program, as in `_decode.py`."""
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    index = gl.arange(0, MANY, L)
    steps = (gl.load(lengths + index, mask=index < sequences, other=0) + 63) // 64
    total = gl.sum(steps, 0)
    each = gl.maximum((total + gl.num_programs(0) - 1) // gl.num_programs(0), 1)
    first = gl.program_id(0) * each
    ends = gl.associative_scan(steps, 0, add)
    sequence = gl.sum((ends <= first).to(gl.int32), 0)
    before = gl.sum(gl.where(index < sequence, steps, 0), 0)
    return first, gl.minimum(first + each, total), sequence, before


@gluon.jit
def copy_queries(q_source, q_tiles, q_rope, q_full, row):
    """Copy the queries of a sequence: 64 heads from `row` on."""
    mbarrier.expect(q_full, 64 * 576 * 2)
    for part in gl.static_range(8):
        tma.async_copy_global_to_shared(q_source, [row, part * 64], q_full, q_tiles.index(part))
    tma.async_copy_global_to_shared(q_source, [row, 512], q_full, q_rope)


@gluon.jit
def copy_rows(
    source,
    tiles,
    rope,
    full,
    table,
    lengths,
    table_row,
    stage,
    step,
    last,
    sequence,
    before,
    length,
    PAGE: gl.constexpr,
    BOX: gl.constexpr,
):
    """Copy the rows of one step, if there is one, and go to the next."""
    BOXES: gl.constexpr = 64 // BOX
    if step < last:
        while step >= before + (length + 63) // 64:
            before += (length + 63) // 64
            sequence += 1
            length = gl.load(lengths + sequence)
        pages = table + sequence.to(gl.int64) * table_row
        ready = full.index(stage)
        mbarrier.expect(ready, 64 * 576 * 2)
        for box in gl.static_range(BOXES):
            # Behind the last row it is copied again: its scores are masked.
            key = gl.minimum((step - before) * 64 + box * BOX, (length - 1) // BOX * BOX)
            row = gl.load(pages + key // PAGE) * PAGE + key % PAGE
            for part in gl.static_range(8):
                place = tiles.index((stage * 8 + part) * BOXES + box)
                tma.async_copy_global_to_shared(source, [row, part * 64], ready, place)
            place = rope.index(stage * BOXES + box)
            tma.async_copy_global_to_shared(source, [row, 512], ready, place)
    return step + 1, sequence, before, length


@gluon.jit
def start_scores(
    q_halves,
    q_rope,
    halves,
    rope,
    full,
    count,
    STAGES: gl.constexpr,
    S: gl.constexpr,
):
    """Scores of one tile, under way."""
    stage = count % STAGES
    mbarrier.wait(full.index(stage), (count // STAGES) & 1)
    zero = gl.zeros([64, 64], gl.float32, S)
    keys = halves.index(stage * 2).permute((1, 0))
    scores = warpgroup_mma(q_halves.index(0), keys, zero, use_acc=False, is_async=True)
    keys = halves.index(stage * 2 + 1).permute((1, 0))
    scores = warpgroup_mma(q_halves.index(1), keys, scores, is_async=True)
    keys = rope.index(stage).permute((1, 0))
    return warpgroup_mma(q_rope, keys, scores, is_async=True)


@gluon.jit
def score(
    q_source,
    q_tiles,
    q_rope,
    tiles,
    rope,
    weights_here,
    factors,
    q_full,
    full,
    told,
    heard,
    lengths,
    sums,
    scale,
    heads,
    first_head,
    first,
    last,
    sequence,
    before,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The group that scores: weights of one tile after another, and factors of the sums so far.

    Behind the last tile of a sequence it tells what to divide by.
    """
    dtype: gl.constexpr = tiles.dtype
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    halves = tiles._reinterpret(dtype, [STAGES * 2, 64, 256], WIDE)
    ropes = rope._reinterpret(dtype, [STAGES, 64, 64], WIDE)
    q_halves = q_tiles._reinterpret(dtype, [2, 64, 256], WIDE)
    step = first
    count = 0
    turn = 0
    if step < last:
        copy_queries(q_source, q_tiles, q_rope, q_full, sequence * heads + first_head)
    while step < last:
        length = gl.load(lengths + sequence)
        own = (length + 63) // 64
        until = gl.minimum(own, last - before)
        begin = step - before
        if begin < until:
            best = gl.full([64], float("-inf"), gl.float32, gl.SliceLayout(1, S))
            total = gl.zeros([64], gl.float32, gl.SliceLayout(1, S))
            mbarrier.wait(q_full, turn & 1)
            for tile in range(begin, until):
                started = start_scores(q_halves, q_rope, halves, ropes, full, count, STAGES, S)
                scores = warpgroup_mma_wait(0, deps=[started])
                if (tile == until - 1) & (before + until < last):
                    following = sequence + 1
                    while gl.load(lengths + following) == 0:
                        following += 1
                    gl.thread_barrier()
                    copy_queries(q_source, q_tiles, q_rope, q_full, following * heads + first_head)
                if (tile + 1) * 64 > length:
                    key = tile * 64 + gl.arange(0, 64, gl.SliceLayout(0, S))
                    scores = gl.where((key < length)[None, :], scores, float("-inf"))
                higher = gl.maximum(best, gl.max(scores, 1) * scale)
                shrink = gl.exp2(best - higher)
                best = higher
                weights = gl.exp2(scores * scale - best[:, None])
                total = total * shrink + gl.sum(weights, 1)
                mbarrier.wait(heard, ((count + turn) & 1) ^ 1)
                weights_here.store(weights.to(dtype))
                factors.store(shrink)
                fence_async_shared()
                gl.thread_barrier()
                mbarrier.arrive(told)
                count += 1
            mbarrier.wait(heard, ((count + turn) & 1) ^ 1)
            factors.store(1.0 / total)
            gl.thread_barrier()
            mbarrier.arrive(told)
            turn += 1
            if (begin > 0) | (until < own):
                part = gl.program_id(0) * 2 + (step > first).to(gl.int32)
                base = (part * gl.num_programs(1) + gl.program_id(1)).to(gl.int64) * 64
                row = gl.arange(0, 64, gl.SliceLayout(1, S))
                mine = (row < GROUP) & (first_head + row < heads)
                gl.store(sums + base + row, best + gl.log2(total), mask=mine)
        step = before + until
        before += own
        sequence += 1


@gluon.jit
def sum_up(
    source,
    tiles,
    rope,
    weights_here,
    factors,
    full,
    told,
    heard,
    table,
    lengths,
    out,
    parts,
    heads,
    first_head,
    table_row,
    first,
    last,
    sequence,
    before,
    PAGE: gl.constexpr,
    BOX: gl.constexpr,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
    WHICH: gl.constexpr,
):
    """A group that sums: columns WHICH * 256 to the next 256 of the result. The first copies."""
    dtype: gl.constexpr = tiles.dtype
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16])
    ROW: gl.constexpr = gl.SliceLayout(1, SUMS)
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    columns = tiles._reinterpret(dtype, [STAGES * 8, 64, 64], WIDE)
    halves = tiles._reinterpret(dtype, [STAGES * 2, 64, 256], WIDE)
    step = first
    count = 0
    turn = 0
    ahead = first
    its_sequence = sequence
    its_before = before
    its_length = 0
    if (WHICH == 0) & (step < last):
        its_length = gl.load(lengths + sequence)
        for stage in gl.static_range(STAGES):
            ahead, its_sequence, its_before, its_length = copy_rows(
                source, tiles, rope, full, table, lengths, table_row, stage, ahead, last,
                its_sequence, its_before, its_length, PAGE, BOX,
            )  # fmt: skip
    while step < last:
        length = gl.load(lengths + sequence)
        own = (length + 63) // 64
        until = gl.minimum(own, last - before)
        begin = step - before
        if begin < until:
            result = gl.zeros([64, 256], gl.float32, SUMS)
            for tile in range(begin, until):
                stage = count % STAGES
                mbarrier.wait(full.index(stage), (count // STAGES) & 1)
                if (tile + 1) * 64 > length:
                    # Zero behind the last row: the cache may hold anything there.
                    key = tile * 64 + gl.arange(0, 64, gl.SliceLayout(1, COPY))
                    for part in gl.static_range(4):
                        some = columns.index(stage * 8 + WHICH * 4 + part)
                        kept = gl.where((key < length)[:, None], some.load(COPY), 0.0)
                        some.store(kept.to(dtype))
                    fence_async_shared()
                    gl.thread_barrier()
                mbarrier.wait(told, (count + turn) & 1)
                result = result * factors.load(ROW)[:, None]
                values = halves.index(stage * 2 + WHICH)
                result = warpgroup_mma(weights_here, values, result, is_async=True)
                result = warpgroup_mma_wait(0, deps=[result])
                gl.thread_barrier()
                mbarrier.arrive(heard)
                if WHICH == 0:
                    mbarrier.wait(heard, (count + turn) & 1)
                    ahead, its_sequence, its_before, its_length = copy_rows(
                        source, tiles, rope, full, table, lengths, table_row, stage, ahead, last,
                        its_sequence, its_before, its_length, PAGE, BOX,
                    )  # fmt: skip
                count += 1
            mbarrier.wait(told, (count + turn) & 1)
            result = result * factors.load(ROW)[:, None]
            gl.thread_barrier()
            mbarrier.arrive(heard)
            turn += 1
            row = gl.arange(0, 64, ROW)
            column = WHICH * 256 + gl.arange(0, 256, gl.SliceLayout(0, SUMS))
            mine = (row < GROUP) & (first_head + row < heads)
            if (begin == 0) & (until == own):
                at = sequence.to(gl.int64) * heads + first_head + row
                to = at[:, None] * 512 + column[None, :]
                gl.store(out + to, result.to(dtype), mask=mine[:, None])
            else:
                part = gl.program_id(0) * 2 + (step > first).to(gl.int32)
                base = (part * gl.num_programs(1) + gl.program_id(1)).to(gl.int64) * 64
                to = (base + row)[:, None] * 512 + column[None, :]
                gl.store(parts + to, result, mask=mine[:, None])
        step = before + until
        before += own
        sequence += 1


@gluon.jit
def latent_kernel(
    q_source,
    source,
    table,
    lengths,
    out,
    parts,
    sums,
    scale,
    sequences,
    heads,
    table_row,
    PAGE: gl.constexpr,
    BOX: gl.constexpr,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
    MANY: gl.constexpr,
):
    BOXES: gl.constexpr = 64 // BOX
    dtype: gl.constexpr = out.dtype.element_ty
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    first, last, sequence, before = share_of(lengths, sequences, MANY)
    first_head = gl.program_id(1) * GROUP
    q_tiles = gl.allocate_shared_memory(dtype, [8, 64, 64], WIDE)
    q_rope = gl.allocate_shared_memory(dtype, [64, 64], WIDE)
    tiles = gl.allocate_shared_memory(dtype, [STAGES * 8 * BOXES, BOX, 64], WIDE)
    rope = gl.allocate_shared_memory(dtype, [STAGES * BOXES, BOX, 64], WIDE)
    weights = gl.allocate_shared_memory(dtype, [64, 64], WIDE)
    factors = gl.allocate_shared_memory(gl.float32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    told = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    heard = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    q_full = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    mbarrier.init(told, count=1)
    mbarrier.init(heard, count=2)
    mbarrier.init(q_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
    gl.warp_specialize(
        [
            (sum_up, (
                source, tiles, rope, weights, factors, full, told, heard, table, lengths, out,
                parts, heads, first_head, table_row, first, last, sequence, before,
                PAGE, BOX, GROUP, STAGES, 0,
            )),
            (sum_up, (
                source, tiles, rope, weights, factors, full, told, heard, table, lengths, out,
                parts, heads, first_head, table_row, first, last, sequence, before,
                PAGE, BOX, GROUP, STAGES, 1,
            )),
            (score, (
                q_source, q_tiles, q_rope, tiles, rope, weights, factors, q_full, full, told,
                heard, lengths, sums, scale, heads, first_head, first, last, sequence, before,
                GROUP, STAGES,
            )),
        ],
        [4, 4],
        [168, 168],
    )  # fmt: skip


def supports(q: torch.Tensor, kv_cache: torch.Tensor, latent_dim: int) -> bool:
    """Hopper, dense rows of 512 and 64 values, and pages of a power of two from 16 on."""
    page = kv_cache.shape[1]
    return (
        q.is_cuda
        and torch.cuda.get_device_capability(q.device)[0] == 9
        and q.dtype in (torch.bfloat16, torch.float16)
        and kv_cache.dtype == q.dtype
        and (latent_dim, q.shape[2]) == (LATENT, LATENT + ROPE)
        and q.is_contiguous()
        and kv_cache.is_contiguous()
        and page >= 16
        and page == triton.next_power_of_2(page)
    )


def rows_of(tensor: torch.Tensor, height: int) -> TensorDescriptor:
    """Copies of `height` rows by 64 values."""
    rows = tensor.view(-1, LATENT + ROPE)
    return TensorDescriptor.from_tensor(rows, [height, 64], gl.NVMMASharedLayout(128, 16))


def attention(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    longest: int,
    scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence; zero for an empty one."""
    sequences, heads, _ = q.shape
    group = min(HEADS, heads)
    groups = triton.cdiv(heads, group)
    page = kv_cache.shape[1]
    box = min(page, TILE)
    out = q.new_empty(sequences, heads, LATENT)
    if not sequences:
        return out
    programs = programs_for(processors(q.device), groups, sequences, longest, TILE)
    parts, sums = room_for_parts(2 * programs, groups, HEADS, LATENT, q.device)
    latent_kernel[(programs, groups)](
        rows_of(q, HEADS),
        rows_of(kv_cache, box),
        table,
        lengths,
        out,
        parts,
        sums,
        scale * LOG2_E,
        sequences,
        heads,
        table.stride(0),
        PAGE=page,
        BOX=box,
        GROUP=group,
        STAGES=STAGES,
        MANY=triton.next_power_of_2(sequences),
        num_warps=4,
    )
    merge(
        parts, sums, None, lengths, out, programs,
        group=group, tokens=1, rows=HEADS, keys=TILE,
    )  # fmt: skip
    return out
