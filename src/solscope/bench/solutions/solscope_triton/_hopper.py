"""Attention for Hopper, paged and causal or packed and full: one warp copies, the others multiply.

A program has 192 rows, each a query head of a token: all query heads of one key head, so that they
share its keys. Heads of 72 or 80 values are 64 and a rest of 16, not padded to 128; those of 192
are 128 and 64. While one group of four warps computes weights, the tensor cores work for the other
two. The sums of heads of 192 and 256 values need the registers of three groups: there are only two
groups then, and a program has 128 rows.

Weights are powers above the largest score of a row in the *first* tile of keys, not in all so far:
then nothing waits for a maximum, and sums need no rescaling. A floating-point number keeps its
precision however large it is, so the result is the same, unless the sums leave the range of
numbers. Then all is computed again with the largest score so far. Short prompts:
`_short_prompts.py`.
"""

import torch
import triton
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

LOG2_E = 1.4426950408889634
PAGE = 16
"""Keys per page: the rows of one copy."""
TILE = 128
"""Keys per step, of heads of up to 128 values; half as many of wider ones."""
GROUPS = 3
"""Groups of warps, 64 rows each, for heads of up to 128 values; one fewer for wider ones."""
PARTS = {64: (64, 0), 72: (64, 16), 80: (64, 16), 128: (128, 0), 192: (128, 64), 256: (256, 0)}
"""Values of a head, and the two parts that they are multiplied in."""
AT_ONCE = 4
"""Key heads whose programs run beside each other."""


@gluon.jit
def copy_tile(
    main_source,
    rest_source,
    main_tiles,
    rest_tiles,
    full,
    tile,
    stage,
    pages,
    last_page,
    column,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    PAGED: gl.constexpr,
):
    """Copy the pages of one tile; `full` is signaled when all are there.

    Without pages, `last_page` is the first row of the sequence.
    """
    PAGES: gl.constexpr = KEYS // 16
    HALVES: gl.constexpr = MAIN // 64
    mbarrier.expect(full, KEYS * (MAIN + REST) * 2)
    if not PAGED:
        WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
        NARROW: gl.constexpr = gl.NVMMASharedLayout(REST * 2 or 32, 16)
        row = last_page + tile * KEYS
        COUNT: gl.constexpr = main_tiles.shape[0] // PAGES
        for half in gl.static_range(HALVES):
            place = tile_of(main_tiles, stage * HALVES + half, COUNT, KEYS, 64, WIDE)
            tma.async_copy_global_to_shared(main_source, [row, column + 64 * half], full, place)
        if REST:
            place = tile_of(rest_tiles, stage, COUNT // HALVES, KEYS, REST, NARROW)
            tma.async_copy_global_to_shared(rest_source, [row, column + MAIN], full, place)
    for page in gl.static_range(PAGES if PAGED else 0):
        # Behind the last page it is copied again: its scores are masked.
        row = gl.load(pages + gl.minimum(tile * PAGES + page, last_page)) * 16
        for half in gl.static_range(HALVES):
            place = main_tiles.index((stage * HALVES + half) * PAGES + page)
            tma.async_copy_global_to_shared(main_source, [row, column + 64 * half], full, place)
        if REST:
            place = rest_tiles.index(stage * PAGES + page)
            tma.async_copy_global_to_shared(rest_source, [row, column + MAIN], full, place)


@gluon.jit
def tile_of(
    tiles, stage, COUNT: gl.constexpr, KEYS: gl.constexpr, WIDTH: gl.constexpr, L: gl.constexpr
):
    """Pages of 16 keys, 64 values at a time, seen as one tile."""
    return tiles._reinterpret(tiles.dtype, [COUNT, KEYS, WIDTH], L).index(stage)


@gluon.jit
def hide(scores, tile, position, visible, KEYS: gl.constexpr, S: gl.constexpr):
    """Scores of keys that a row does not see are -inf."""
    if (tile + 1) * KEYS > visible:
        key = tile * KEYS + gl.arange(0, KEYS, gl.SliceLayout(0, S))
        scores = gl.where(key[None, :] <= position[:, None], scores, float("-inf"))
    return scores


@gluon.jit
def clear_rows(values, tile, length, KEYS: gl.constexpr, COPY: gl.constexpr):
    key = tile * KEYS + gl.arange(0, KEYS, gl.SliceLayout(1, COPY))
    kept = gl.where((key < length)[:, None], values.load(COPY), 0.0)
    values.store(kept.to(values.dtype))


@gluon.jit
def clear_unused(
    v_main,
    v_rest,
    v_full,
    count,
    tile,
    length,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    WIDE: gl.constexpr,
    NARROW: gl.constexpr,
):
    """Zero behind the last key: the cache may hold anything there, and 0 times NaN is NaN."""
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    COPY_REST: gl.constexpr = gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0])
    if (tile + 1) * KEYS > length:
        stage = count % STAGES
        mbarrier.wait(v_full.index(stage), (count // STAGES) & 1)
        clear_rows(tile_of(v_main, stage, STAGES, KEYS, MAIN, WIDE), tile, length, KEYS, COPY)
        if REST:
            rest = tile_of(v_rest, stage, STAGES, KEYS, REST, NARROW)
            clear_rows(rest, tile, length, KEYS, COPY_REST)
        fence_async_shared()
        gl.thread_barrier()


@gluon.jit
def failed(flags):
    """Whether a group found sums that are too large."""
    FLAGS: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    return gl.max(flags.load(FLAGS), 0) > 0


@gluon.jit
def copy_one(
    k_source,
    v_source,
    k_rest_source,
    v_rest_source,
    k_main,
    v_main,
    k_rest,
    v_rest,
    k_full,
    v_full,
    k_empty,
    v_empty,
    pages,
    last_page,
    column,
    tile,
    count,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    PAGED: gl.constexpr,
):
    """Copy keys and values of one tile into the buffers that are next."""
    stage = count % STAGES
    free = ((count // STAGES) & 1) ^ 1
    mbarrier.wait(k_empty.index(stage), free)
    copy_tile(
        k_source, k_rest_source, k_main, k_rest, k_full.index(stage), tile, stage, pages,
        last_page, column, KEYS, MAIN, REST, PAGED,
    )  # fmt: skip
    mbarrier.wait(v_empty.index(stage), free)
    copy_tile(
        v_source, v_rest_source, v_main, v_rest, v_full.index(stage), tile, stage, pages,
        last_page, column, KEYS, MAIN, REST, PAGED,
    )  # fmt: skip


@gluon.jit
def copy_keys(
    k_source,
    v_source,
    k_rest_source,
    v_rest_source,
    k_main,
    v_main,
    k_rest,
    v_rest,
    k_full,
    v_full,
    k_empty,
    v_empty,
    verdict,
    flags,
    pages,
    last_page,
    column,
    tiles,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    PAGED: gl.constexpr,
):
    """The copying warp: tile after tile into STAGES buffers, again where a group asks for it."""
    for tile in range(tiles):
        copy_one(
            k_source, v_source, k_rest_source, v_rest_source, k_main, v_main, k_rest, v_rest,
            k_full, v_full, k_empty, v_empty, pages, last_page, column, tile, tile,
            KEYS, MAIN, REST, STAGES, PAGED,
        )  # fmt: skip
    mbarrier.wait(verdict, 0)
    if failed(flags):
        for tile in range(tiles):
            copy_one(
                k_source, v_source, k_rest_source, v_rest_source, k_main, v_main, k_rest, v_rest,
                k_full, v_full, k_empty, v_empty, pages, last_page, column, tile, tiles + tile,
                KEYS, MAIN, REST, STAGES, PAGED,
            )  # fmt: skip


@gluon.jit
def start_scores(
    q_main,
    q_rest,
    k_main,
    k_rest,
    k_full,
    tile,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    S: gl.constexpr,
    WIDE: gl.constexpr,
    NARROW: gl.constexpr,
):
    """Scores of one tile, under way."""
    stage = tile % STAGES
    mbarrier.wait(k_full.index(stage), (tile // STAGES) & 1)
    keys = tile_of(k_main, stage, STAGES, KEYS, MAIN, WIDE).permute((1, 0))
    zero = gl.zeros([64, KEYS], gl.float32, S)
    scores = warpgroup_mma(q_main, keys, zero, use_acc=False, is_async=True)
    if REST:
        keys = tile_of(k_rest, stage, STAGES, KEYS, REST, NARROW).permute((1, 0))
        scores = warpgroup_mma(q_rest, keys, scores, is_async=True)
    return scores


@gluon.jit
def start_sums(
    left,
    sums,
    sums_rest,
    v_main,
    v_rest,
    v_full,
    count,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    SUMS_REST: gl.constexpr,
    WIDE: gl.constexpr,
    NARROW: gl.constexpr,
):
    """Sums of values with the weights `left`, under way."""
    stage = count % STAGES
    mbarrier.wait(v_full.index(stage), (count // STAGES) & 1)
    values = tile_of(v_main, stage, STAGES, KEYS, MAIN, WIDE)
    sums = warpgroup_mma(left, values, sums, is_async=True)
    if REST:
        values = tile_of(v_rest, stage, STAGES, KEYS, REST, NARROW)
        left_rest = gl.convert_layout(left, gl.DotOperandLayout(0, SUMS_REST, 2))
        sums_rest = warpgroup_mma(left_rest, values, sums_rest, is_async=True)
    return sums, sums_rest


@gluon.jit
def wait_sums(sums, sums_rest, REST: gl.constexpr):
    """Sums, when they are there."""
    if REST:
        sums, sums_rest = warpgroup_mma_wait(0, deps=[sums, sums_rest])
    else:
        sums = warpgroup_mma_wait(0, deps=[sums])
    return sums, sums_rest


@gluon.jit
def sum_part(weights, KEYS: gl.constexpr):
    """Sums within each thread: four per row."""
    return gl.sum(gl.sum(weights.reshape([64, KEYS // 8, 4, 2]), 3), 1)


@gluon.jit
def weigh(scores, best, scale):
    """Weights: powers above `best`."""
    return gl.exp2(scores * scale - best[:, None])


@gluon.jit
def places(
    first_row,
    begin,
    first_token,
    queried,
    kv_head,
    q_row,
    column,
    WIDTH: gl.constexpr,
    GROUPS: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    COPY: gl.constexpr,
):
    """Where values `column` to `column + WIDTH` of 64 rows are, and whether there are such."""
    row = first_row + gl.arange(0, 64, gl.SliceLayout(1, COPY))
    dim = column + gl.arange(0, WIDTH, gl.SliceLayout(0, COPY))
    token = first_token + row // GROUP
    valid = (row < (64 * GROUPS // GROUP) * GROUP) & (token < queried)
    place = (begin + token).to(gl.int64) * q_row + (kv_head * GROUP + row % GROUP) * DIM
    return place[:, None] + dim[None, :], valid[:, None] & (dim < DIM)[None, :]


@gluon.jit
def attend(
    q,
    out,
    q_main,
    q_rest,
    k_main,
    v_main,
    k_rest,
    v_rest,
    k_full,
    v_full,
    k_empty,
    v_empty,
    verdict,
    flags,
    starts_here,
    begin,
    first_token,
    queried,
    length,
    kv_head,
    q_row,
    tiles,
    scale,
    GROUPS: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    CAUSAL: gl.constexpr,
    WHICH: gl.constexpr,
):
    """One group of warps: 64 rows over all tiles."""
    TOKENS: gl.constexpr = 64 * GROUPS // GROUP
    dtype: gl.constexpr = q_main.dtype
    # Up to this sum, the type can hold every weight, and fp32 their products with values.
    MOST: gl.constexpr = 1e18 if dtype == gl.bfloat16 else 3e4
    NARROW_WIDTH: gl.constexpr = REST or 16
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, MAIN, 16])
    SUMS_REST: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, NARROW_WIDTH, 16])
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    NARROW: gl.constexpr = gl.NVMMASharedLayout(NARROW_WIDTH * 2, 16)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    COPY_REST: gl.constexpr = gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    q_main = q_main.index(WHICH)
    q_rest = q_rest.index(WHICH)
    first_row = WHICH * 64
    place, valid = places(
        first_row, begin, first_token, queried, kv_head, q_row, 0, MAIN, GROUPS, GROUP, DIM, COPY
    )
    q_main.store(gl.load(q + place, mask=valid, other=0.0))
    if REST:
        place, valid = places(
            first_row,
            begin,
            first_token,
            queried,
            kv_head,
            q_row,
            MAIN,
            REST,
            GROUPS,
            GROUP,
            DIM,
            COPY_REST,
        )
        q_rest.store(gl.load(q + place, mask=valid, other=0.0))
    fence_async_shared()
    gl.thread_barrier()
    offset = length - queried
    row_s = WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, S))
    token_s = first_token + row_s // GROUP
    position = gl.where((row_s < TOKENS * GROUP) & (token_s < queried), offset + token_s, 0)
    visible = offset + first_token + (WHICH * 64) // GROUP + 1
    if not CAUSAL:
        position = gl.full([64], 0, gl.int32, gl.SliceLayout(1, S)) + length - 1
        visible = length

    sums = gl.zeros([64, MAIN], gl.float32, SUMS)
    sums_rest = gl.zeros([64, NARROW_WIDTH], gl.float32, SUMS_REST)
    started = start_scores(
        q_main, q_rest, k_main, k_rest, k_full, 0, KEYS, MAIN, REST, STAGES, S, WIDE, NARROW
    )
    scores = warpgroup_mma_wait(0, deps=[started])
    mbarrier.arrive(k_empty.index(0))
    scores = hide(scores, 0, position, visible, KEYS, S)
    best = gl.max(scores, 1) * scale
    weights = weigh(scores, best, scale)
    part = sum_part(weights, KEYS)
    left = gl.convert_layout(weights.to(dtype), LEFT)
    for tile in range(1, tiles):
        before = tile - 1
        sums, sums_rest = start_sums(
            left, sums, sums_rest, v_main, v_rest, v_full, before,
            KEYS, MAIN, REST, STAGES, SUMS_REST, WIDE, NARROW,
        )  # fmt: skip
        sums, sums_rest = wait_sums(sums, sums_rest, REST)
        mbarrier.arrive(v_empty.index(before % STAGES))
        started = start_scores(
            q_main, q_rest, k_main, k_rest, k_full, tile, KEYS, MAIN, REST, STAGES, S, WIDE, NARROW
        )
        scores = warpgroup_mma_wait(0, deps=[started])
        mbarrier.arrive(k_empty.index(tile % STAGES))
        scores = hide(scores, tile, position, visible, KEYS, S)
        weights = weigh(scores, best, scale)
        part += sum_part(weights, KEYS)
        left = gl.convert_layout(weights.to(dtype), LEFT)
    last = tiles - 1
    clear_unused(v_main, v_rest, v_full, last, last, length, KEYS, MAIN, REST, STAGES, WIDE, NARROW)
    sums, sums_rest = start_sums(
        left, sums, sums_rest, v_main, v_rest, v_full, last,
        KEYS, MAIN, REST, STAGES, SUMS_REST, WIDE, NARROW,
    )  # fmt: skip
    sums, sums_rest = wait_sums(sums, sums_rest, REST)
    mbarrier.arrive(v_empty.index(last % STAGES))
    total = gl.convert_layout(gl.sum(part, 1), gl.SliceLayout(1, S))
    flag = gl.where(total < MOST, 0, 1)
    flags.slice(WHICH * 64, 64).store(flag)
    if WHICH == 2:  # The number of flags is a power of two: fill the rest.
        flags.slice(192, 64).store(flag)
    fence_async_shared()
    gl.thread_barrier()
    mbarrier.arrive(verdict)
    mbarrier.wait(verdict, 0)
    if failed(flags):
        best = gl.full([64], float("-inf"), gl.float32, gl.SliceLayout(1, S))
        total = gl.zeros([64], gl.float32, gl.SliceLayout(1, S))
        sums = gl.zeros([64, MAIN], gl.float32, SUMS)
        sums_rest = gl.zeros([64, NARROW_WIDTH], gl.float32, SUMS_REST)
        for tile in range(tiles):
            count = tiles + tile
            started = start_scores(
                q_main, q_rest, k_main, k_rest, k_full, count, KEYS, MAIN, REST, STAGES, S, WIDE,
                NARROW,
            )  # fmt: skip
            scores = warpgroup_mma_wait(0, deps=[started])
            mbarrier.arrive(k_empty.index(count % STAGES))
            scores = hide(scores, tile, position, visible, KEYS, S)
            higher = gl.maximum(best, gl.max(scores, 1) * scale)
            shrink = gl.exp2(best - higher)
            best = higher
            weights = weigh(scores, best, scale)
            total = total * shrink + gl.sum(weights, 1)
            sums = sums * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
            if REST:
                shrunk = gl.convert_layout(shrink, gl.SliceLayout(1, SUMS_REST))
                sums_rest = sums_rest * shrunk[:, None]
            left = gl.convert_layout(weights.to(dtype), LEFT)
            clear_unused(
                v_main, v_rest, v_full, count, tile, length,
                KEYS, MAIN, REST, STAGES, WIDE, NARROW,
            )  # fmt: skip
            sums, sums_rest = start_sums(
                left, sums, sums_rest, v_main, v_rest, v_full, count,
                KEYS, MAIN, REST, STAGES, SUMS_REST, WIDE, NARROW,
            )  # fmt: skip
            sums, sums_rest = wait_sums(sums, sums_rest, REST)
            mbarrier.arrive(v_empty.index(count % STAGES))
    # By way of the queries' place, so that whole rows are written.
    share = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, SUMS))
    q_main.store((sums * share[:, None]).to(dtype))
    gl.thread_barrier()
    # Places are computed again, in a way that the compiler cannot see: kept, they take registers
    # that the loop needs.
    first_row += gl.load(starts_here, volatile=True) - begin
    place, valid = places(
        first_row, begin, first_token, queried, kv_head, q_row, 0, MAIN, GROUPS, GROUP, DIM, COPY
    )
    gl.store(out + place, q_main.load(COPY), mask=valid)
    if REST:
        share = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, SUMS_REST))
        q_rest.store((sums_rest * share[:, None]).to(dtype))
        gl.thread_barrier()
        place, valid = places(
            first_row,
            begin,
            first_token,
            queried,
            kv_head,
            q_row,
            MAIN,
            REST,
            GROUPS,
            GROUP,
            DIM,
            COPY_REST,
        )
        gl.store(out + place, q_rest.load(COPY_REST), mask=valid)


@gluon.jit
def block_of(block, starts, sequences, TOKENS: gl.constexpr, FEW: gl.constexpr):
    """The sequence of a block of tokens, and its first token there.

    Each sequence has as many blocks as the longest one or, where those of a FEW tokens are left
    out, as many as it needs and at most one more.
    """
    sequence = block % sequences
    first_token = (block // sequences) * TOKENS
    if FEW:
        low = block * 0
        high = sequences
        while low < high:
            middle = (low + high) // 2
            if gl.load(starts + middle) // TOKENS + middle <= block:
                low = middle + 1
            else:
                high = middle
        sequence = low - 1
        first_token = (block - (gl.load(starts + sequence) // TOKENS + sequence)) * TOKENS
    return sequence, first_token


@gluon.jit
def long_kernel(
    q,
    out,
    k_source,
    v_source,
    k_rest_source,
    v_rest_source,
    starts,
    lengths,
    table,
    scale,
    sequences,
    blocks,
    kv_heads,
    at_once,
    q_row,
    table_row,
    GROUPS: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
    PAGED: gl.constexpr,
    CAUSAL: gl.constexpr,
    FEW: gl.constexpr,
):
    TOKENS: gl.constexpr = 64 * GROUPS // GROUP
    FLAGS: gl.constexpr = 256 if GROUPS == 3 else 128
    PAGES: gl.constexpr = KEYS // 16
    dtype: gl.constexpr = q.dtype.element_ty
    NARROW_WIDTH: gl.constexpr = REST or 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    NARROW: gl.constexpr = gl.NVMMASharedLayout(NARROW_WIDTH * 2, 16)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    # Some heads at a time, whose keys stay in the L2; of these, the last blocks first: within a
    # sequence, they see the most keys.
    first_head = gl.program_id(0) // (at_once * blocks) * at_once
    within = gl.program_id(0) - first_head * blocks
    here = gl.minimum(at_once, kv_heads - first_head)
    kv_head = first_head + within % here
    block = blocks - 1 - within // here
    sequence, first_token = block_of(block, starts, sequences, TOKENS, FEW)
    begin = gl.load(starts + sequence)
    queried = gl.load(starts + sequence + 1) - begin
    if (first_token >= queried) | (queried <= FEW):
        return
    length = gl.load(lengths + sequence)
    pages = table
    if PAGED:
        pages += sequence.to(gl.int64) * table_row
        first_row = (length - 1) // 16
    else:
        first_row = length
        length = gl.load(lengths + sequence + 1) - first_row
    end = length
    if CAUSAL:
        end = gl.minimum(length - queried + gl.minimum(first_token + TOKENS, queried), length)
    if end <= 0:
        return
    tiles = (end + KEYS - 1) // KEYS
    q_main = gl.allocate_shared_memory(dtype, [GROUPS, 64, MAIN], WIDE)
    q_rest = gl.allocate_shared_memory(dtype, [GROUPS, 64, NARROW_WIDTH], NARROW)
    k_main = gl.allocate_shared_memory(dtype, [STAGES * MAIN // 64 * PAGES, 16, 64], WIDE)
    v_main = gl.allocate_shared_memory(dtype, [STAGES * MAIN // 64 * PAGES, 16, 64], WIDE)
    k_rest = k_main
    v_rest = v_main
    if REST:
        k_rest = gl.allocate_shared_memory(dtype, [STAGES * PAGES, 16, REST], NARROW)
        v_rest = gl.allocate_shared_memory(dtype, [STAGES * PAGES, 16, REST], NARROW)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    verdict = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    flags = gl.allocate_shared_memory(gl.int32, [FLAGS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    mbarrier.init(verdict, count=GROUPS)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=GROUPS)
        mbarrier.init(v_empty.index(stage), count=GROUPS)
    # Spelled out: the arguments of a partition cannot be assembled from tuples.
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (attend, (
                    q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full,
                    k_empty, v_empty, verdict, flags, starts + sequence, begin, first_token,
                    queried, length, kv_head, q_row, tiles, scale,
                    GROUPS, GROUP, DIM, KEYS, MAIN, REST, STAGES, CAUSAL, 0,
                )),
                (attend, (
                    q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full,
                    k_empty, v_empty, verdict, flags, starts + sequence, begin, first_token,
                    queried, length, kv_head, q_row, tiles, scale,
                    GROUPS, GROUP, DIM, KEYS, MAIN, REST, STAGES, CAUSAL, 1,
                )),
                (attend, (
                    q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full,
                    k_empty, v_empty, verdict, flags, starts + sequence, begin, first_token,
                    queried, length, kv_head, q_row, tiles, scale,
                    GROUPS, GROUP, DIM, KEYS, MAIN, REST, STAGES, CAUSAL, 2,
                )),
                (copy_keys, (
                    k_source, v_source, k_rest_source, v_rest_source, k_main, v_main, k_rest,
                    v_rest, k_full, v_full, k_empty, v_empty, verdict, flags, pages, first_row,
                    kv_head * DIM, tiles, KEYS, MAIN, REST, STAGES, PAGED,
                )),
            ],
            [4, 4, 1],
            [160, 160, 32],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (attend, (
                    q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full,
                    k_empty, v_empty, verdict, flags, starts + sequence, begin, first_token,
                    queried, length, kv_head, q_row, tiles, scale,
                    GROUPS, GROUP, DIM, KEYS, MAIN, REST, STAGES, CAUSAL, 0,
                )),
                (attend, (
                    q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full,
                    k_empty, v_empty, verdict, flags, starts + sequence, begin, first_token,
                    queried, length, kv_head, q_row, tiles, scale,
                    GROUPS, GROUP, DIM, KEYS, MAIN, REST, STAGES, CAUSAL, 1,
                )),
                (copy_keys, (
                    k_source, v_source, k_rest_source, v_rest_source, k_main, v_main, k_rest,
                    v_rest, k_full, v_full, k_empty, v_empty, verdict, flags, pages, first_row,
                    kv_head * DIM, tiles, KEYS, MAIN, REST, STAGES, PAGED,
                )),
            ],
            [4, 1],
            [240, 32],
        )  # fmt: skip


def copies(rows: torch.Tensor, keys: int, width: int) -> TensorDescriptor:
    """Copies of `keys` rows by `width` values."""
    return TensorDescriptor.from_tensor(rows, [keys, width], gl.NVMMASharedLayout(2 * width, 16))


def runs_here(q: torch.Tensor, *others: torch.Tensor) -> bool:
    """Hopper, and dense heads of 64, 72, 80, 128, 192 or 256 values."""
    return (
        q.is_cuda
        and torch.cuda.get_device_capability(q.device)[0] == 9
        and q.dtype in (torch.bfloat16, torch.float16)
        and q.shape[2] in PARTS
        and all(tensor.is_contiguous() for tensor in (q, *others))
    )


def supports(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> bool:
    """Also pages of 16 keys, and up to 16 query heads to a key head."""
    return (
        runs_here(q, k_cache, v_cache)
        and k_cache.shape[1] == PAGE
        and q.shape[1] // k_cache.shape[2] <= 16
    )


def start(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor,
    longest_q: int,
    scale: float,
    out: torch.Tensor,
    *,
    paged: bool,
    few: int = 0,
) -> None:
    """Run the kernel on rows of `keys` and `values`: [..., heads, dim]."""
    tokens, heads, dim = q.shape
    kv_heads, sequences = keys.shape[-2], len(starts) - 1
    group = heads // kv_heads
    main, rest = PARTS[dim]
    wide = dim > 128
    tile, groups = (TILE // 2, GROUPS - 1) if wide else (TILE, GROUPS)
    rows = (keys.view(-1, kv_heads * dim), values.view(-1, kv_heads * dim))
    height = PAGE if paged else tile
    sources = [copies(each, height, width) for width in (64, rest or 64) for each in rows]
    each = 64 * groups // group
    blocks = tokens // each + sequences if few else triton.cdiv(longest_q, each) * sequences
    long_kernel[(kv_heads * blocks,)](
        q,
        out,
        *sources,
        starts,
        lengths,
        table,
        scale * LOG2_E,
        sequences,
        blocks,
        kv_heads,
        min(AT_ONCE, kv_heads),
        q.stride(0),
        table.stride(0),
        GROUPS=groups,
        GROUP=group,
        DIM=dim,
        MAIN=main,
        REST=rest,
        KEYS=tile,
        STAGES=3 if main == 64 or rest == 64 else 2,
        PAGED=paged,
        CAUSAL=paged,
        FEW=few,
        num_warps=4,
    )


def attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor,
    longest_q: int,
    scale: float,
    out: torch.Tensor,
    *,
    few: int,
) -> None:
    """Attention of every token over the keys of its sequence up to itself, in pages, into `out`.

    Sequences of up to `few` tokens are left out.
    """
    start(q, k_cache, v_cache, starts, lengths, table, longest_q, scale, out, paged=True, few=few)


def full_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor,
    longest_q: int,
    scale: float,
) -> torch.Tensor:
    """Attention of every token over all keys of its sequence, packed one after the other."""
    out = torch.empty_like(q)
    start(q, k, v, q_starts, k_starts, k_starts, longest_q, scale, out, paged=False)
    return out
