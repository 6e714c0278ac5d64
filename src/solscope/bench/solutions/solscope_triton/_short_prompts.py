"""Paged causal attention of many short prompts on Hopper: keys and values are copied once.

Where all keys of a sequence fit on the chip, and at least half of all processors have one, a
program takes one sequence and key head after another: one warp copies keys and values, three groups
of four take blocks of 64 rows, row g * TOKENS + t for query head g of token t. Where these would
not fill a block, as 7 heads do not, heads take turns with 64 tokens each. Where a key head has more
than eight query heads, each share of them is a sequence of its own. Blocks are taken from the last
to the first, and tiles of keys likewise: the last tiles are free first, and those of the next
sequence come in while the first ones are still needed.

As in `_hopper.py`, the largest score of a row in its first tile serves for all tiles, and a block
whose sums leave the range of numbers is computed again with the largest score so far.
"""

import torch
from _decode import processors
from _hopper import LOG2_E, PAGE, clear_rows, copies, copy_tile, hide, sum_part, tile_of, weigh
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

ON_CHIP = 256
"""Keys of a sequence that stay on the chip."""
TILE = 64
GROUPS = 3
"""Groups of warps that attend."""


@gluon.jit
def copy_sequences(
    k_source,
    v_source,
    k_main,
    v_main,
    k_full,
    v_full,
    empty,
    lengths,
    table,
    table_row,
    shares,
    items,
    DIM: gl.constexpr,
    KEYS: gl.constexpr,
    TILES: gl.constexpr,
    PARTS: gl.constexpr,
):
    """The copying warp: all keys of one sequence and head after another, the last tile first."""
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        turn = item // gl.num_programs(0)
        sequence = item // shares
        column = item % shares // PARTS * DIM
        length = gl.load(lengths + sequence)
        pages = table + sequence.to(gl.int64) * table_row
        last_page = gl.maximum(length - 1, 0) // 16
        for back in gl.static_range(TILES):
            tile = TILES - 1 - back
            mbarrier.wait(empty.index(tile), (turn & 1) ^ 1)
            if tile * KEYS < length:
                copy_tile(
                    k_source,
                    k_source,
                    k_main,
                    k_main,
                    k_full.index(tile),
                    tile,
                    tile,
                    pages,
                    last_page,
                    column,
                    KEYS,
                    DIM,
                    0,
                    True,
                )
                copy_tile(
                    v_source,
                    v_source,
                    v_main,
                    v_main,
                    v_full.index(tile),
                    tile,
                    tile,
                    pages,
                    last_page,
                    column,
                    KEYS,
                    DIM,
                    0,
                    True,
                )
            else:
                mbarrier.arrive(k_full.index(tile))
                mbarrier.arrive(v_full.index(tile))


@gluon.jit
def weigh_backward(
    scores, tile, position, best, total, scale, visible, KEYS: gl.constexpr, S: gl.constexpr
):
    """Weights of a tile of keys; in the first tiles a row may not see any."""
    if (tile + 1) * KEYS > visible:
        key = tile * KEYS + gl.arange(0, KEYS, gl.SliceLayout(0, S))
        scores = gl.where(key[None, :] <= position[:, None], scores, float("-inf"))
    higher = gl.maximum(best, gl.max(scores, 1) * scale)
    safe = gl.where(higher == float("-inf"), 0.0, higher)
    shrink = gl.exp2(best - safe)
    weights = gl.exp2(scores * scale - safe[:, None])
    return weights, higher, shrink, total * shrink + gl.sum(weights, 1)


@gluon.jit
def item_of(item, starts, lengths, shares):
    """First token, tokens, keys and share of the query heads of an item."""
    sequence = item // shares
    begin = gl.load(starts + sequence)
    return (
        begin,
        gl.load(starts + sequence + 1) - begin,
        gl.load(lengths + sequence),
        item % shares,
    )


@gluon.jit
def fetch_queries(
    q_source,
    q_blocks,
    q_full,
    slot,
    row,
    first_head,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    TOKENS: gl.constexpr,
):
    """Copy a block of queries: row g * TOKENS + t is head g of token t."""
    full = q_full.index(slot)
    mbarrier.expect(full, TOKENS * GROUP * DIM * 2)
    tma.async_copy_global_to_shared(q_source, [0, first_head, row, 0], full, q_blocks.index(slot))


@gluon.jit
def attend_sequences(
    q_source,
    out_sink,
    out,
    q_blocks,
    k_main,
    v_main,
    q_full,
    k_full,
    v_full,
    empty,
    starts,
    lengths,
    shares,
    items,
    q_row,
    scale,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    KEYS: gl.constexpr,
    TILES: gl.constexpr,
    TOKENS: gl.constexpr,
    TURNS: gl.constexpr,
    GROUPS: gl.constexpr,
    WHICH: gl.constexpr,
):
    """One group of warps: some of the blocks of 64 rows of each sequence, the last first."""
    dtype: gl.constexpr = q_blocks.dtype
    # Up to this sum, the type can hold every weight, and fp32 their products with values.
    MOST: gl.constexpr = 1e18 if dtype == gl.bfloat16 else 3e4
    # A row that sees no key of the last tile takes powers above 0: these may be small.
    LEAST: gl.constexpr = 1e-18 if dtype == gl.bfloat16 else 0.5
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIM, 16])
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    count = 0
    begin, queried, length, share = item_of(gl.program_id(0), starts, lengths, shares)
    block = (queried + TOKENS - 1) // TOKENS * TURNS - 1 - WHICH
    if block >= 0:
        fetch_queries(
            q_source,
            q_blocks,
            q_full,
            2 * WHICH,
            begin + block // TURNS * TOKENS,
            (share * TURNS + block % TURNS) * GROUP,
            GROUP,
            DIM,
            TOKENS,
        )
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        turn = item // gl.num_programs(0)
        after = gl.minimum(item + gl.num_programs(0), items - 1)
        n_begin, n_queried, n_length, n_share = item_of(after, starts, lengths, shares)
        n_block = (n_queried + TOKENS - 1) // TOKENS * TURNS - 1 - WHICH
        n_block = gl.where(item + gl.num_programs(0) < items, n_block, -1)
        offset = length - queried
        held = TILES
        if (block < 0) & (n_block >= 0):
            tma.store_wait(0)
            fetch_queries(
                q_source,
                q_blocks,
                q_full,
                2 * WHICH + (count & 1),
                n_begin + n_block // TURNS * TOKENS,
                (n_share * TURNS + n_block % TURNS) * GROUP,
                GROUP,
                DIM,
                TOKENS,
            )
        while block >= 0:
            following = block - GROUPS
            stays = following >= 0
            rows = block // TURNS  # which block of tokens
            first_head = (share * TURNS + block % TURNS) * GROUP
            slot = 2 * WHICH + (count & 1)
            queries = q_blocks._reinterpret(dtype, [2 * GROUPS, 64, DIM], WIDE).index(slot)
            row = gl.arange(0, 64, gl.SliceLayout(1, S))
            token = rows * TOKENS + row % TOKENS
            position = offset + gl.minimum(token, queried - 1)
            visible = offset + rows * TOKENS + 1
            end = gl.minimum(offset + gl.minimum((rows + 1) * TOKENS, queried), length)
            sums = gl.zeros([64, DIM], gl.float32, SUMS)
            tiles = (end + KEYS - 1) // KEYS
            # The rows of the block before are written; the next block's queries take their place.
            tma.store_wait(0)
            if stays | (n_block >= 0):
                coming = gl.where(stays, following, n_block)
                fetch_queries(
                    q_source,
                    q_blocks,
                    q_full,
                    slot ^ 1,
                    gl.where(stays, begin, n_begin) + coming // TURNS * TOKENS,
                    (gl.where(stays, share, n_share) * TURNS + coming % TURNS) * GROUP,
                    GROUP,
                    DIM,
                    TOKENS,
                )
            mbarrier.wait(q_full.index(slot), (count >> 1) & 1)
            last = tiles - 1
            mbarrier.wait(k_full.index(last), turn & 1)
            keys = tile_of(k_main, last, TILES, KEYS, DIM, WIDE).permute((1, 0))
            scores = warpgroup_mma(
                queries, keys, gl.zeros([64, KEYS], gl.float32, S), use_acc=False
            )
            scores = hide(scores, last, position, visible, KEYS, S)
            best = gl.max(scores, 1) * scale
            best = gl.where(best == float("-inf"), 0.0, best)
            weights = weigh(scores, best, scale)
            part = sum_part(weights, KEYS)
            left = gl.convert_layout(weights.to(dtype), LEFT)
            mbarrier.wait(v_full.index(last), turn & 1)
            if (last + 1) * KEYS > length:
                clear_rows(tile_of(v_main, last, TILES, KEYS, DIM, WIDE), last, length, KEYS, COPY)
                fence_async_shared()
                gl.thread_barrier()
            for back in range(1, tiles):
                tile = last - back
                mbarrier.wait(k_full.index(tile), turn & 1)
                keys = tile_of(k_main, tile, TILES, KEYS, DIM, WIDE).permute((1, 0))
                started = warpgroup_mma(
                    queries, keys, gl.zeros([64, KEYS], gl.float32, S), use_acc=False, is_async=True
                )
                mbarrier.wait(v_full.index(tile + 1), turn & 1)
                values = tile_of(v_main, tile + 1, TILES, KEYS, DIM, WIDE)
                summing = warpgroup_mma(left, values, sums, is_async=True)
                scores = warpgroup_mma_wait(1, deps=[started])
                scores = hide(scores, tile, position, visible, KEYS, S)
                weights = weigh(scores, best, scale)
                part += sum_part(weights, KEYS)
                sums = warpgroup_mma_wait(0, deps=[summing])
                left = gl.convert_layout(weights.to(dtype), LEFT)
            mbarrier.wait(v_full.index(0), turn & 1)
            sums = warpgroup_mma(left, tile_of(v_main, 0, TILES, KEYS, DIM, WIDE), sums)
            total = gl.convert_layout(gl.sum(part, 1), gl.SliceLayout(1, S))
            if gl.max(gl.where((total < MOST) & (total > LEAST), 0, 1), 0) > 0:
                # Again with the largest score so far.
                best = gl.full([64], float("-inf"), gl.float32, gl.SliceLayout(1, S))
                total = gl.zeros([64], gl.float32, gl.SliceLayout(1, S))
                sums = gl.zeros([64, DIM], gl.float32, SUMS)
                for back in range(tiles):
                    tile = last - back
                    keys = tile_of(k_main, tile, TILES, KEYS, DIM, WIDE).permute((1, 0))
                    scores = warpgroup_mma(
                        queries, keys, gl.zeros([64, KEYS], gl.float32, S), use_acc=False
                    )
                    weights, best, shrink, total = weigh_backward(
                        scores, tile, position, best, total, scale, visible, KEYS, S
                    )
                    sums = sums * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
                    left = gl.convert_layout(weights.to(dtype), LEFT)
                    sums = warpgroup_mma(left, tile_of(v_main, tile, TILES, KEYS, DIM, WIDE), sums)
            # Tiles that no block of this group needs any more.
            ahead = gl.minimum(offset + (following // TURNS + 1) * TOKENS, length)
            needed = gl.where(stays, (ahead + KEYS - 1) // KEYS, 0)
            for tile in range(needed, held):
                mbarrier.wait(k_full.index(tile), turn & 1)
                mbarrier.wait(v_full.index(tile), turn & 1)
                mbarrier.arrive(empty.index(tile))
            held = needed
            total = gl.where(total > 0, total, 1.0)
            inverse = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, SUMS))
            queries.store((sums * inverse[:, None]).to(dtype))
            if (rows + 1) * TOKENS <= queried:
                fence_async_shared()
                gl.thread_barrier()
                tma.async_copy_shared_to_global(
                    out_sink, [0, first_head, begin + rows * TOKENS, 0], q_blocks.index(slot)
                )
            else:
                # Not beyond the last token: there the next sequence begins.
                gl.thread_barrier()
                line = gl.arange(0, 64, gl.SliceLayout(1, COPY))
                dim = gl.arange(0, DIM, gl.SliceLayout(0, COPY))
                valid = (line < TOKENS * GROUP) & (rows * TOKENS + line % TOKENS < queried)
                first = (begin + rows * TOKENS).to(gl.int64) * q_row + first_head * DIM
                place = (line % TOKENS) * q_row + (line // TOKENS) * DIM
                place = place[:, None] + dim[None, :]
                gl.store(out + first + place, queries.load(COPY), mask=valid[:, None])
                fence_async_shared()
                gl.thread_barrier()
            count += 1
            block = following
        for tile in range(held):
            mbarrier.wait(k_full.index(tile), turn & 1)
            mbarrier.wait(v_full.index(tile), turn & 1)
            mbarrier.arrive(empty.index(tile))
        begin = n_begin
        queried = n_queried
        length = n_length
        share = n_share
        block = n_block
    tma.store_wait(0)


@gluon.jit
def short_kernel(
    out,
    q_source,
    out_sink,
    k_source,
    v_source,
    starts,
    lengths,
    table,
    scale,
    shares,
    items,
    q_row,
    table_row,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    KEYS: gl.constexpr,
    TILES: gl.constexpr,
    TOKENS: gl.constexpr,
    TURNS: gl.constexpr,
    PARTS: gl.constexpr,
    GROUPS: gl.constexpr,
):
    dtype: gl.constexpr = out.dtype.element_ty
    WIDE: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    PAGES: gl.constexpr = KEYS // 16
    ROWS: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=4)
    q_blocks = gl.allocate_shared_memory(dtype, [2 * GROUPS, DIM // 64, GROUP, TOKENS, 64], ROWS)
    k_main = gl.allocate_shared_memory(dtype, [TILES * DIM // 64 * PAGES, 16, 64], WIDE)
    v_main = gl.allocate_shared_memory(dtype, [TILES * DIM // 64 * PAGES, 16, 64], WIDE)
    q_full = gl.allocate_shared_memory(gl.int64, [2 * GROUPS, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [TILES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [TILES, 1], BARRIER)
    empty = gl.allocate_shared_memory(gl.int64, [TILES, 1], BARRIER)
    for slot in gl.static_range(2 * GROUPS):
        mbarrier.init(q_full.index(slot), count=1)
    for tile in gl.static_range(TILES):
        mbarrier.init(k_full.index(tile), count=1)
        mbarrier.init(v_full.index(tile), count=1)
        mbarrier.init(empty.index(tile), count=GROUPS)
    gl.warp_specialize(
        [
            (
                attend_sequences,
                (
                    q_source,
                    out_sink,
                    out,
                    q_blocks,
                    k_main,
                    v_main,
                    q_full,
                    k_full,
                    v_full,
                    empty,
                    starts,
                    lengths,
                    shares,
                    items,
                    q_row,
                    scale,
                    GROUP,
                    DIM,
                    KEYS,
                    TILES,
                    TOKENS,
                    TURNS,
                    GROUPS,
                    0,
                ),
            ),
            (
                attend_sequences,
                (
                    q_source,
                    out_sink,
                    out,
                    q_blocks,
                    k_main,
                    v_main,
                    q_full,
                    k_full,
                    v_full,
                    empty,
                    starts,
                    lengths,
                    shares,
                    items,
                    q_row,
                    scale,
                    GROUP,
                    DIM,
                    KEYS,
                    TILES,
                    TOKENS,
                    TURNS,
                    GROUPS,
                    1,
                ),
            ),
            (
                attend_sequences,
                (
                    q_source,
                    out_sink,
                    out,
                    q_blocks,
                    k_main,
                    v_main,
                    q_full,
                    k_full,
                    v_full,
                    empty,
                    starts,
                    lengths,
                    shares,
                    items,
                    q_row,
                    scale,
                    GROUP,
                    DIM,
                    KEYS,
                    TILES,
                    TOKENS,
                    TURNS,
                    GROUPS,
                    2,
                ),
            ),
            (
                copy_sequences,
                (
                    k_source,
                    v_source,
                    k_main,
                    v_main,
                    k_full,
                    v_full,
                    empty,
                    lengths,
                    table,
                    table_row,
                    shares,
                    items,
                    DIM,
                    KEYS,
                    TILES,
                    PARTS,
                ),
            ),
        ],
        [4, 4, 1],
        [160, 160, 24],
    )


def fits(q: torch.Tensor, k_cache: torch.Tensor, sequences: int, longest_k: int) -> bool:
    """Whether the keys of every sequence stay on the chip, and programs are enough."""
    busy = enough(sequences * k_cache.shape[2], q.device)
    return longest_k <= ON_CHIP and q.shape[2] in (64, 128) and busy


def enough(programs: int, device: torch.device) -> bool:
    """Whether at least half of all processors have work."""
    return 2 * programs >= processors(device)


def attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    _, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    group = heads // kv_heads
    parts = next(
        parts for parts in range(1, group + 1) if group % parts == 0 and group <= 8 * parts
    )
    group //= parts
    # The largest power of two of which all heads of the group fit into 64 rows.
    tokens = 1 << ((64 // group).bit_length() - 1)
    turns = 1
    if tokens * group < 64:
        # Rows would be left over: the heads take turns, each with 64 tokens.
        turns, group, tokens = group, 1, 64
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)

    def rows_of(tensor: torch.Tensor) -> TensorDescriptor:
        """Copies of some tokens of the heads of a group, 64 values of each row at a time."""
        return TensorDescriptor(
            tensor,
            [dim // 64, heads, len(tensor), 64],
            [64, dim, tensor.stride(0), 1],
            [dim // 64, group, tokens, 64],
            gl.NVMMASharedLayout(128, 16, rank=4),
        )

    items = len(lengths) * kv_heads * parts
    short_kernel[(min(processors(q.device), items),)](
        out,
        rows_of(q),
        rows_of(out),
        *(copies(cache.flatten(0, 1).flatten(1), PAGE, 64) for cache in (k_cache, v_cache)),
        starts,
        lengths,
        table,
        scale * LOG2_E,
        kv_heads * parts,
        items,
        q.stride(0),
        table.stride(0),
        GROUP=group,
        DIM=dim,
        KEYS=TILE,
        TILES=ON_CHIP // TILE,
        TOKENS=tokens,
        TURNS=turns,
        PARTS=parts,
        GROUPS=GROUPS,
        num_warps=4,
    )
    return out
