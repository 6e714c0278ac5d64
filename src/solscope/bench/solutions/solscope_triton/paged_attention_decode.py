"""Decode attention over the split-x cache, the context split over programs.

A page of one head is contiguous: it is loaded as it lies and turned on the chip. Heads of other
sizes than powers of two take the general kernel. Contexts of up to 128 keys are one step: page
numbers are loaded beside the length, and values beside the keys.
"""

import torch
import triton
import triton.language as tl
from _decode import LOG2_E, decode, merge, splits_for

PAGES = 4
"""Pages per step."""
ONE_STEP = 128
"""Keys of a context that is attended to in one step."""


@triton.jit
def attend_kernel(
    q,
    k,
    v,
    table,
    lengths,
    out,
    sums,
    scale,
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
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    PAGES: tl.constexpr,
):
    KEYS: tl.constexpr = PAGES * PAGE
    kv_head = tl.program_id(0)
    sequence = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    length = tl.load(lengths + sequence)
    each = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    start = split * each
    stop = tl.minimum(start + each, length)

    row = tl.arange(0, ROWS)
    dim = tl.arange(0, DIM)
    head = kv_head * GROUP + row
    mine = (row < GROUP)[:, None]
    q_at = q + sequence * q_row + head[:, None] * q_head + dim[None, :]
    queries = tl.load(q_at, mask=mine, other=0.0)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    result = tl.zeros([ROWS, DIM], tl.float32)
    within = tl.arange(0, DIM * PAGE)
    for first in range(start, stop, KEYS):
        page_start = first + tl.arange(0, PAGES) * PAGE
        exists = page_start < stop
        page_at = table + sequence * table_row + page_start // PAGE
        page = tl.load(page_at, mask=exists, other=0).to(tl.int64)
        k_at = k + page * k_page + kv_head * k_head
        keys = tl.load(k_at[:, None] + within[None, :], mask=exists[:, None], other=0.0)
        keys = tl.permute(tl.reshape(keys, [PAGES, DIM // X, PAGE, X]), [1, 3, 0, 2])
        scores = tl.dot(queries, tl.reshape(keys, [DIM, KEYS])) * scale
        seen = first + tl.arange(0, KEYS) < stop
        scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp2(best - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        # Slots behind the last key hold anything: not even 0 times it may count.
        used = page_start[:, None] + (within % PAGE)[None, :] < stop
        v_at = v + page * v_page + kv_head * v_head
        values = tl.load(v_at[:, None] + within[None, :], mask=used, other=0.0)
        values = tl.permute(tl.reshape(values, [PAGES, DIM, PAGE]), [0, 2, 1])
        narrow = weights.to(values.dtype)
        result = tl.dot(narrow, tl.reshape(values, [KEYS, DIM]), result * shrink[:, None])
        best = higher

    safe = tl.where(total > 0, total, 1.0)
    place = (sequence * HEADS + head) * SPLITS + split
    result = (result / safe[:, None]).to(out.dtype.element_ty)
    tl.store(out + place[:, None] * DIM + dim[None, :], result, mask=mine)
    if SPLITS > 1:
        lse = tl.where(total > 0, best + tl.log2(safe), float("-inf"))
        tl.store(sums + place, lse, mask=row < GROUP)


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
    sizes = (dim, page, x)
    dense = k[2:] == (page * x, x, 1) and v[2:] == (page, 1)
    if not dense or sizes != tuple(map(triton.next_power_of_2, sizes)) or dim > 256:
        return decode(
            query,
            k_cache,
            v_cache,
            block_tables,
            seq_lens,
            max_seq_len,
            softmax_scale,
            kv_heads=kv_heads,
            page=page,
            k_strides=(k[0], k[1], k[3], k[2]),
            v_strides=(v[0], v[1], v[3], v[2]),
            x=x,
        )
    out = torch.empty_like(query)
    group = heads // kv_heads
    rows = max(16, triton.next_power_of_2(group))
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
            query.stride(0),
            query.stride(1),
            k[0],
            k[1],
            v[0],
            v[1],
            block_tables.stride(0),
            block_tables.shape[1],
            HEADS=heads,
            GROUP=group,
            DIM=dim,
            X=x,
            PAGE=page,
            ROWS=rows,
            PAGES=pages,
            num_warps=8 if pages * page * dim > 16384 else 4,
        )
        return out
    splits = splits_for(sequences * kv_heads, max_seq_len, query.device)
    parts, sums = out, out
    if splits > 1:
        floats = {"dtype": torch.float32, "device": query.device}
        parts = torch.empty(sequences * heads, splits, dim, **floats)
        sums = torch.empty(sequences * heads, splits, **floats)
    attend_kernel[(kv_heads, sequences, splits)](
        query,
        k_cache,
        v_cache,
        block_tables,
        seq_lens,
        parts,
        sums,
        softmax_scale * LOG2_E,
        query.stride(0),
        query.stride(1),
        k[0],
        k[1],
        v[0],
        v[1],
        block_tables.stride(0),
        HEADS=heads,
        GROUP=group,
        DIM=dim,
        X=x,
        PAGE=page,
        SPLITS=splits,
        ROWS=rows,
        PAGES=PAGES,
        num_warps=4,
        num_stages=2,
    )
    if splits > 1:
        merge(parts, sums, out.view(-1, dim))
    return out
