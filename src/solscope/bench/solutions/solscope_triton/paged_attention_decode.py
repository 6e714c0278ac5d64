"""Decode attention over the split-x cache.

A page of one head is contiguous: it is loaded as it lies and turned on the chip. Contexts of up to
128 keys are one step: page numbers are loaded beside the length, and values beside the keys. Work
on longer ones is shared out as in `_decode.py`. That kernel takes what this one cannot: sizes that
are not powers of two, caches that are not dense, and steps too large for the chip.
"""

import torch
import triton
import triton.language as tl
from _decode import (
    LOG2_E,
    decode,
    merge,
    processors,
    programs_for,
    room_for_parts,
    settle,
    share_of,
    steps_of,
)

STEP = 64
"""Keys per step."""
WARPS = 4
STAGES = 5
PER_PROCESSOR = 2
"""Programs that run beside each other on a multiprocessor."""

ON_CHIP = 16384
"""Elements of K in a step, at most: several steps of K and V are on the chip."""
ONE_STEP = 128
"""Keys of a context that is attended to in one step."""


@triton.jit
def walk(
    queries,
    k,
    v,
    pages,
    first,
    last,
    best,
    total,
    result,
    scale,
    k_page,
    v_page,
    DIM: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
    PAGES: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Keys from `first` to `last`: whole steps, or MASKED."""
    KEYS: tl.constexpr = PAGES * PAGE
    within = tl.arange(0, DIM * PAGE)
    for start in range(first, last, KEYS):
        page_start = start + tl.arange(0, PAGES) * PAGE
        if MASKED:
            exists = page_start < last
            page = tl.load(pages + page_start // PAGE, mask=exists, other=0).to(tl.int64)
            keys = tl.load(
                k + (page * k_page)[:, None] + within[None, :], mask=exists[:, None], other=0.0
            )
        else:
            page = tl.load(pages + page_start // PAGE).to(tl.int64)
            keys = tl.load(k + (page * k_page)[:, None] + within[None, :])
        keys = tl.permute(tl.reshape(keys, [PAGES, DIM // X, PAGE, X]), [1, 3, 0, 2])
        scores = tl.dot(queries, tl.reshape(keys, [DIM, KEYS])) * scale
        if MASKED:
            seen = start + tl.arange(0, KEYS) < last
            scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp2(best - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if MASKED:
            # Slots behind the last key hold anything: not even 0 times it may count.
            used = page_start[:, None] + (within % PAGE)[None, :] < last
            values = tl.load(v + (page * v_page)[:, None] + within[None, :], mask=used, other=0.0)
        else:
            values = tl.load(v + (page * v_page)[:, None] + within[None, :])
        values = tl.permute(tl.reshape(values, [PAGES, DIM, PAGE]), [0, 2, 1])
        narrow = weights.to(values.dtype)
        result = tl.dot(narrow, tl.reshape(values, [KEYS, DIM]), result * shrink[:, None])
        best = higher
    return best, total, result


@triton.jit
def attend_kernel(
    q,
    k,
    v,
    table,
    lengths,
    out,
    parts,
    sums,
    scale,
    sequences,
    q_row,
    q_head,
    k_page,
    k_head,
    v_page,
    v_head,
    table_row,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    PAGES: tl.constexpr,
    MANY: tl.constexpr,
):
    KEYS: tl.constexpr = PAGES * PAGE
    program = tl.program_id(0)
    kv_head = tl.program_id(1)
    steps = steps_of(None, lengths, sequences, 1, KEYS, MANY)
    first, last, sequence, before = share_of(program, tl.num_programs(0), steps, MANY)
    step = first

    row = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM)
    head = kv_head * GROUP + row
    mine = row < GROUP
    k_here = k + kv_head.to(tl.int64) * k_head
    v_here = v + kv_head.to(tl.int64) * v_head
    while step < last:
        length = tl.load(lengths + sequence)
        own = tl.cdiv(length, KEYS)
        until = tl.minimum(own, last - before)
        q_at = q + sequence.to(tl.int64) * q_row + head[:, None] * q_head + dim[None, :]
        queries = tl.load(q_at, mask=mine[:, None], other=0.0)
        pages = table + sequence.to(tl.int64) * table_row
        best = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        result = tl.zeros([ROWS, DIM], tl.float32)
        start = (step - before) * KEYS
        stop = tl.minimum(until * KEYS, length)
        whole = tl.maximum(stop // KEYS * KEYS, start)
        best, total, result = walk(
            queries, k_here, v_here, pages, start, whole, best, total, result, scale,
            k_page, v_page, DIM, X, PAGE, PAGES, False,
        )  # fmt: skip
        best, total, result = walk(
            queries, k_here, v_here, pages, whole, stop, best, total, result, scale,
            k_page, v_page, DIM, X, PAGE, PAGES, True,
        )  # fmt: skip

        part = program * 2 + (step > first).to(tl.int32)
        settle(
            best, total, result, (step == before) & (until == own) & (own > 0), until > 0,
            sequence.to(tl.int64) * HEADS + head,
            (part * tl.num_programs(1) + kv_head).to(tl.int64) * ROWS + row,
            mine, out, parts, sums, dim, dim < DIM, DIM,
        )  # fmt: skip
        step = before + until
        before += own
        sequence += 1


@triton.jit
def one_step_kernel(
    q,
    k,
    v,
    table,
    lengths,
    out,
    scale,
    q_row,
    q_head,
    k_page,
    k_head,
    v_page,
    v_head,
    table_row,
    columns,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    PAGES: tl.constexpr,
):
    KEYS: tl.constexpr = PAGES * PAGE
    kv_head = tl.program_id(0)
    sequence = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, PAGES)
    page = tl.load(table + sequence * table_row + column, mask=column < columns, other=0)
    length = tl.load(lengths + sequence)
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM)
    head = kv_head * GROUP + row
    mine = (row < GROUP)[:, None]
    queries = tl.load(
        q + sequence * q_row + head[:, None] * q_head + dim[None, :], mask=mine, other=0.0
    )
    exists = column * PAGE < length
    page = tl.where(exists, page, 0).to(tl.int64)
    within = tl.arange(0, DIM * PAGE)
    k_at = k + page * k_page + kv_head * k_head
    keys = tl.load(k_at[:, None] + within[None, :], mask=exists[:, None], other=0.0)
    # Slots behind the last key hold anything: not even 0 times it may count.
    used = (column * PAGE)[:, None] + (within % PAGE)[None, :] < length
    v_at = v + page * v_page + kv_head * v_head
    values = tl.load(v_at[:, None] + within[None, :], mask=exists[:, None], other=0.0)
    keys = tl.permute(tl.reshape(keys, [PAGES, DIM // X, PAGE, X]), [1, 3, 0, 2])
    scores = tl.dot(queries, tl.reshape(keys, [DIM, KEYS])) * scale
    scores = tl.where((tl.arange(0, KEYS) < length)[None, :], scores, float("-inf"))
    best = tl.max(scores, 1)
    best = tl.where(best == float("-inf"), 0.0, best)
    weights = tl.exp2(scores - best[:, None])
    total = tl.sum(weights, 1)
    values = tl.where(used, values, 0.0).to(values.dtype)
    values = tl.permute(tl.reshape(values, [PAGES, DIM, PAGE]), [0, 2, 1])
    result = tl.dot(weights.to(values.dtype), tl.reshape(values, [KEYS, DIM]))
    result = result / tl.where(total > 0, total, 1.0)[:, None]
    place = (sequence * HEADS + head)[:, None] * DIM + dim[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=mine)


def run(
    query: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence; zero for an empty one."""
    k, v = k_cache.stride(), v_cache.stride()
    sequences, heads, dim = query.shape
    kv_heads, page, x = v_cache.shape[1], v_cache.shape[3], k_cache.shape[4]
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if not sequences:
        return out
    sizes = (dim, page, x)
    dense = k[2:] == (page * x, x, 1) and v[2:] == (page, 1)
    powers = sizes == tuple(map(triton.next_power_of_2, sizes))
    if not dense or not powers or max(STEP, page) * dim > ON_CHIP:
        decode(
            query,
            k_cache,
            v_cache,
            block_tables,
            None,
            seq_lens,
            max_seq_len,
            softmax_scale,
            out,
            kv_heads=kv_heads,
            page=page,
            k_strides=(k[0], k[1], k[3], k[2]),
            v_strides=(v[0], v[1], v[3], v[2]),
            x=x,
        )
        return out
    group = heads // kv_heads
    rows = max(16, triton.next_power_of_2(group))
    strides = (query.stride(0), query.stride(1), k[0], k[1], v[0], v[1], block_tables.stride(0))
    shape = {"HEADS": heads, "GROUP": group, "DIM": dim, "X": x, "PAGE": page, "ROWS": rows}
    if max_seq_len <= ONE_STEP:
        pages = max(triton.next_power_of_2(triton.cdiv(max_seq_len, page)), 16 // page, 1)
        one_step_kernel[(kv_heads, sequences)](
            query,
            k_cache,
            v_cache,
            block_tables,
            seq_lens,
            out,
            softmax_scale * LOG2_E,
            *strides,
            block_tables.shape[1],
            **shape,
            PAGES=pages,
            num_warps=8 if pages * page * dim > 16384 else 4,
        )
        return out
    pages = max(STEP // page, 1)
    at_once = PER_PROCESSOR * processors(query.device)
    programs = programs_for(at_once, kv_heads, sequences, max_seq_len, pages * page)
    parts, sums = room_for_parts(2 * programs, kv_heads, rows, dim, query.device)
    attend_kernel[(programs, kv_heads)](
        query,
        k_cache,
        v_cache,
        block_tables,
        seq_lens,
        out,
        parts,
        sums,
        softmax_scale * LOG2_E,
        sequences,
        *strides,
        **shape,
        PAGES=pages,
        MANY=triton.next_power_of_2(sequences),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    merge(
        parts, sums, None, seq_lens, out, programs,
        group=group, tokens=1, rows=rows, keys=pages * page,
    )  # fmt: skip
    return out
