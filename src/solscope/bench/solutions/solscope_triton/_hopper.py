"""Paged causal attention for Hopper: one warp copies pages, two groups of four multiply.

A program has 128 rows, each a query head of a token: all query heads of one key head, so that they
share its keys. Heads of 72 or 80 values are 64 and a rest of 16, not padded to 128. While a group
of warps computes the weights of one tile of keys, its tensor cores sum up the values of the one
before, and the other group's take turns with it. Short prompts: `_short_prompts.py`.
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
"""Keys per step."""


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
):
    """Copy the pages of one tile; `full` is signaled when all are there."""
    PAGES: gl.constexpr = KEYS // 16
    HALVES: gl.constexpr = MAIN // 64
    mbarrier.expect(full, KEYS * (MAIN + REST) * 2)
    for page in gl.static_range(PAGES):
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
def weigh(scores, tile, position, best, total, scale, visible, KEYS: gl.constexpr, S: gl.constexpr):
    """Weights of a tile of keys, and the state of the softmax with them.

    Every row sees the first key of its sequence, so that `best` is finite from the first tile on.
    """
    if (tile + 1) * KEYS > visible:
        key = tile * KEYS + gl.arange(0, KEYS, gl.SliceLayout(0, S))
        scores = gl.where(key[None, :] <= position[:, None], scores, float("-inf"))
    higher = gl.maximum(best, gl.max(scores, 1) * scale)
    shrink = gl.exp2(best - higher)
    weights = gl.exp2(scores * scale - higher[:, None])
    return weights, higher, shrink, total * shrink + gl.sum(weights, 1)


@gluon.jit
def clear_unused(values, tile, length, KEYS: gl.constexpr, COPY: gl.constexpr):
    """Zero behind the last key: the cache may hold anything there, and 0 times NaN is NaN."""
    key = tile * KEYS + gl.arange(0, KEYS, gl.SliceLayout(1, COPY))
    kept = gl.where((key < length)[:, None], values.load(COPY), 0.0)
    values.store(kept.to(values.dtype))


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
    pages,
    last_page,
    column,
    tiles,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
):
    """The copying warp: tile after tile into STAGES buffers."""
    for tile in range(tiles):
        stage = tile % STAGES
        free = ((tile // STAGES) & 1) ^ 1
        mbarrier.wait(k_empty.index(stage), free)
        copy_tile(
            k_source, k_rest_source, k_main, k_rest, k_full.index(stage), tile, stage, pages,
            last_page, column, KEYS, MAIN, REST,
        )  # fmt: skip
        mbarrier.wait(v_empty.index(stage), free)
        copy_tile(
            v_source, v_rest_source, v_main, v_rest, v_full.index(stage), tile, stage, pages,
            last_page, column, KEYS, MAIN, REST,
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
    begin,
    first_token,
    queried,
    length,
    kv_head,
    q_row,
    tiles,
    scale,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    KEYS: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    STAGES: gl.constexpr,
    TOKENS: gl.constexpr,
    WHICH: gl.constexpr,
):
    """One group of warps: 64 rows over all tiles."""
    dtype: gl.constexpr = q_main.dtype
    NARROW_WIDTH: gl.constexpr = REST or 16
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, MAIN, 16])
    SUMS_REST: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, NARROW_WIDTH, 16])
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    NARROW: gl.constexpr = gl.NVMMASharedLayout(NARROW_WIDTH * 2, 16)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    COPY_REST: gl.constexpr = gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    LEFT_REST: gl.constexpr = gl.DotOperandLayout(0, SUMS_REST, 2)
    q_main = q_main.index(WHICH)
    q_rest = q_rest.index(WHICH)
    row = WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, COPY))
    dim = gl.arange(0, MAIN, gl.SliceLayout(0, COPY))
    token = first_token + row // GROUP
    valid = (row < TOKENS * GROUP) & (token < queried)
    place = (begin + token).to(gl.int64) * q_row + (kv_head * GROUP + row % GROUP) * DIM
    place = place[:, None] + dim[None, :]
    q_main.store(gl.load(q + place, mask=valid[:, None], other=0.0))
    if REST:
        row_r = WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, COPY_REST))
        dim_r = MAIN + gl.arange(0, REST, gl.SliceLayout(0, COPY_REST))
        token_r = first_token + row_r // GROUP
        valid_r = (row_r < TOKENS * GROUP) & (token_r < queried)
        valid_r = valid_r[:, None] & (dim_r < DIM)[None, :]
        place_r = (begin + token_r).to(gl.int64) * q_row + (kv_head * GROUP + row_r % GROUP) * DIM
        place_r = place_r[:, None] + dim_r[None, :]
        q_rest.store(gl.load(q + place_r, mask=valid_r, other=0.0))
    fence_async_shared()
    gl.thread_barrier()
    offset = length - queried
    row_s = WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, S))
    token_s = first_token + row_s // GROUP
    position = gl.where((row_s < TOKENS * GROUP) & (token_s < queried), offset + token_s, 0)
    visible = offset + first_token + (WHICH * 64) // GROUP + 1

    best = gl.full([64], float("-inf"), gl.float32, gl.SliceLayout(1, S))
    total = gl.zeros([64], gl.float32, gl.SliceLayout(1, S))
    sums = gl.zeros([64, MAIN], gl.float32, SUMS)
    sums_rest = gl.zeros([64, NARROW_WIDTH], gl.float32, SUMS_REST)
    started = start_scores(
        q_main, q_rest, k_main, k_rest, k_full, 0, KEYS, MAIN, REST, STAGES, S, WIDE, NARROW
    )
    scores = warpgroup_mma_wait(0, deps=[started])
    mbarrier.arrive(k_empty.index(0))
    weights, best, shrink, total = weigh(scores, 0, position, best, total, scale, visible, KEYS, S)
    left = gl.convert_layout(weights.to(dtype), LEFT)
    for tile in range(1, tiles):
        started = start_scores(
            q_main,
            q_rest,
            k_main,
            k_rest,
            k_full,
            tile,
            KEYS,
            MAIN,
            REST,
            STAGES,
            S,
            WIDE,
            NARROW,
        )
        before = (tile - 1) % STAGES
        mbarrier.wait(v_full.index(before), ((tile - 1) // STAGES) & 1)
        values = tile_of(v_main, before, STAGES, KEYS, MAIN, WIDE)
        summing = warpgroup_mma(left, values, sums, is_async=True)
        if REST:
            values = tile_of(v_rest, before, STAGES, KEYS, REST, NARROW)
            left_rest = gl.convert_layout(left, LEFT_REST)
            summing_rest = warpgroup_mma(left_rest, values, sums_rest, is_async=True)
            scores = warpgroup_mma_wait(2, deps=[started])
        else:
            scores = warpgroup_mma_wait(1, deps=[started])
        mbarrier.arrive(k_empty.index(tile % STAGES))
        weights, best, shrink, total = weigh(
            scores, tile, position, best, total, scale, visible, KEYS, S
        )
        if REST:
            sums, sums_rest = warpgroup_mma_wait(0, deps=[summing, summing_rest])
        else:
            sums = warpgroup_mma_wait(0, deps=[summing])
        mbarrier.arrive(v_empty.index(before))
        sums = sums * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
        if REST:
            sums_rest = sums_rest * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS_REST))[:, None]
        left = gl.convert_layout(weights.to(dtype), LEFT)
    last = tiles - 1
    before = last % STAGES
    mbarrier.wait(v_full.index(before), (last // STAGES) & 1)
    values = tile_of(v_main, before, STAGES, KEYS, MAIN, WIDE)
    if tiles * KEYS > length:
        clear_unused(values, last, length, KEYS, COPY)
        if REST:
            rest = tile_of(v_rest, before, STAGES, KEYS, REST, NARROW)
            clear_unused(rest, last, length, KEYS, COPY_REST)
        fence_async_shared()
        gl.thread_barrier()
    sums = warpgroup_mma(left, values, sums)
    # By way of the queries' place, so that whole rows are written.
    share = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, SUMS))
    q_main.store((sums * share[:, None]).to(dtype))
    gl.thread_barrier()
    gl.store(out + place, q_main.load(COPY), mask=valid[:, None])
    if REST:
        values = tile_of(v_rest, before, STAGES, KEYS, REST, NARROW)
        sums_rest = warpgroup_mma(gl.convert_layout(left, LEFT_REST), values, sums_rest)
        share = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, SUMS_REST))
        q_rest.store((sums_rest * share[:, None]).to(dtype))
        gl.thread_barrier()
        gl.store(out + place_r, q_rest.load(COPY_REST), mask=valid_r)


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
    q_row,
    table_row,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    MAIN: gl.constexpr,
    REST: gl.constexpr,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
):
    TOKENS: gl.constexpr = 128 // GROUP
    PAGES: gl.constexpr = KEYS // 16
    dtype: gl.constexpr = q.dtype.element_ty
    NARROW_WIDTH: gl.constexpr = REST or 16
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    NARROW: gl.constexpr = gl.NVMMASharedLayout(NARROW_WIDTH * 2, 16)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    kv_head = gl.program_id(0)
    # Long rows first.
    block = gl.num_programs(1) - 1 - gl.program_id(1)
    sequence = block % sequences
    begin = gl.load(starts + sequence)
    first_token = (block // sequences) * TOKENS
    queried = gl.load(starts + sequence + 1) - begin
    if first_token >= queried:
        return
    length = gl.load(lengths + sequence)
    q_main = gl.allocate_shared_memory(dtype, [2, 64, MAIN], WIDE)
    q_rest = gl.allocate_shared_memory(dtype, [2, 64, NARROW_WIDTH], NARROW)
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
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=2)
        mbarrier.init(v_empty.index(stage), count=2)
    end = gl.minimum(length - queried + gl.minimum(first_token + TOKENS, queried), length)
    tiles = (end + KEYS - 1) // KEYS
    pages = table + sequence.to(gl.int64) * table_row
    last_page = (length - 1) // 16
    gl.warp_specialize(
        [
            (attend, (
                q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full, k_empty,
                v_empty, begin, first_token, queried, length, kv_head, q_row, tiles, scale,
                GROUP, DIM, KEYS, MAIN, REST, STAGES, TOKENS, 0,
            )),
            (attend, (
                q, out, q_main, q_rest, k_main, v_main, k_rest, v_rest, k_full, v_full, k_empty,
                v_empty, begin, first_token, queried, length, kv_head, q_row, tiles, scale,
                GROUP, DIM, KEYS, MAIN, REST, STAGES, TOKENS, 1,
            )),
            (copy_keys, (
                k_source, v_source, k_rest_source, v_rest_source, k_main, v_main, k_rest, v_rest,
                k_full, v_full, k_empty, v_empty, pages, last_page, kv_head * DIM, tiles,
                KEYS, MAIN, REST, STAGES,
            )),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip


def pages_of(cache: torch.Tensor, width: int) -> TensorDescriptor:
    """Copies of `width` values of one page."""
    rows = cache.view(cache.shape[0] * cache.shape[1], -1)
    return TensorDescriptor.from_tensor(rows, [PAGE, width], gl.NVMMASharedLayout(2 * width, 16))


def supports(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> bool:
    """Hopper, pages of 16 keys in a dense cache, heads of 64 to 80 or 128 values."""
    return (
        q.is_cuda
        and torch.cuda.get_device_capability(q.device)[0] == 9
        and k_cache.shape[1] == PAGE
        and q.dtype in (torch.bfloat16, torch.float16)
        and q.shape[2] in (64, 72, 80, 128)
        and q.shape[1] // k_cache.shape[2] <= 16
        and all(tensor.is_contiguous() for tensor in (q, k_cache, v_cache))
    )


def attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor,
    longest_q: int,
    longest_k: int,
    scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    _, heads, dim = q.shape
    kv_heads, sequences = k_cache.shape[2], len(lengths)
    group = heads // kv_heads
    out = torch.empty_like(q)
    k_source, v_source = pages_of(k_cache, 64), pages_of(v_cache, 64)
    tensors = (starts, lengths, table, scale * LOG2_E)
    strides = (q.stride(0), table.stride(0))
    main, rest = (128, 0) if dim == 128 else (64, 16 * (dim > 64))
    rests = (pages_of(k_cache, rest), pages_of(v_cache, rest)) if rest else (k_source, v_source)
    blocks = triton.cdiv(longest_q, 128 // group) * sequences
    long_kernel[(kv_heads, blocks)](
        q,
        out,
        k_source,
        v_source,
        *rests,
        *tensors,
        sequences,
        *strides,
        GROUP=group,
        DIM=dim,
        MAIN=main,
        REST=rest,
        KEYS=TILE,
        STAGES=2 if main == 128 else 3,
        num_warps=4,
    )
    return out
