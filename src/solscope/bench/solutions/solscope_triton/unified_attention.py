"""Paged causal attention: blocks of queries times all heads of one key head.

Sequences with a token or a few are decoded, alone or beside prompts, by `_decode.py`.

Keys that every query of a block sees need no mask; only the tiles at the diagonal have one. On
Hopper the prompts of most models take the kernels of `_hopper.py` and `_short_prompts.py`.
"""

import torch
import triton
import triton.language as tl
from _decode import LOG2_E, ROWS, decode, processors

try:
    import _short_prompts as short_prompts
    from _hopper import attention, supports
except ImportError:  # A Triton without Gluon.
    supports = None


@triton.jit
def step(
    queries,
    k,
    v,
    pages,
    first,
    last,
    position,
    best,
    total,
    out,
    scale,
    k_page,
    k_slot,
    dim,
    known,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    MASKED: tl.constexpr,
):
    for start in range(first, last, KEYS):
        key = start + tl.arange(0, KEYS)
        inside = key < last
        page = tl.load(pages + key // PAGE, mask=inside, other=0).to(tl.int64)
        row = page * k_page + (key % PAGE) * k_slot
        keys = tl.load(
            k + row[None, :] + dim[:, None], mask=known[:, None] & inside[None, :], other=0.0
        )
        scores = tl.dot(queries, keys) * scale
        if MASKED:
            seen = (key[None, :] <= position[:, None]) & inside[None, :]
            scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        fixed = tl.where(higher == float("-inf"), 0.0, higher)
        shrink = tl.exp2(best - fixed)
        weights = tl.exp2(scores - fixed[:, None])
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(
            v + row[:, None] + dim[None, :], mask=inside[:, None] & known[None, :], other=0.0
        )
        out = out * shrink[:, None]
        out = tl.dot(weights.to(values.dtype), values, out)
        best = higher
    return best, total, out


@triton.jit
def prefill_kernel(
    q,
    k,
    v,
    out,
    starts,
    lengths,
    table,
    scale,
    sequences: tl.int32,
    q_row,
    q_head,
    k_page,
    k_slot,
    k_head,
    table_row,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    FEW: tl.constexpr,
):
    TOKENS: tl.constexpr = ROWS // GROUP
    # long rows first
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    kv_head = tl.program_id(0)
    # the sequence of this block: sequence s has its first at starts[s] // TOKENS + s
    low: tl.int32 = 0
    high = sequences
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) // TOKENS + middle <= block:
            low = middle + 1
        else:
            high = middle
    sequence = low - 1
    begin = tl.load(starts + sequence)
    queried = tl.load(starts + sequence + 1) - begin
    first_token = (block - (begin // TOKENS + sequence)) * TOKENS
    if (first_token >= queried) | (queried <= FEW):
        return
    length = tl.load(lengths + sequence)
    offset = length - queried

    row = tl.arange(0, ROWS)
    dim = tl.arange(0, WIDTH)
    known = dim < DIM
    token = first_token + row // GROUP
    head = kv_head * GROUP + row % GROUP
    valid = (row < TOKENS * GROUP) & (token < queried)
    at = (begin + token).to(tl.int64)[:, None] * q_row + head[:, None] * q_head + dim[None, :]
    written = valid[:, None] & known[None, :]
    queries = tl.load(q + at, mask=written, other=0.0)
    position = tl.where(valid, offset + token, 0)

    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    pages = table + sequence.to(tl.int64) * table_row
    k_here = k + kv_head * k_head
    v_here = v + kv_head * k_head
    last_token = tl.minimum(first_token + TOKENS, queried) - 1
    whole = (offset + first_token + 1) // KEYS * KEYS
    end = tl.minimum(offset + last_token + 1, length)
    best, total, sums = step(
        queries, k_here, v_here, pages, 0, whole, position, best, total, sums, scale,
        k_page, k_slot, dim, known, PAGE, KEYS, False,
    )  # fmt: skip
    best, total, sums = step(
        queries, k_here, v_here, pages, whole, end, position, best, total, sums, scale,
        k_page, k_slot, dim, known, PAGE, KEYS, True,
    )  # fmt: skip
    result = sums / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=written)


def run(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence up to itself."""
    tokens, heads, dim = q.shape
    page, kv_heads = k_cache.shape[1:3]
    sequences, group = len(seqused_k), heads // kv_heads
    strides = k_cache.stride()
    out = torch.empty_like(q)
    few = max(1, ROWS // group)
    prompts = max_seqlen_q > few
    hopper = prompts and supports is not None and supports(q, k_cache, v_cache)
    if hopper and short_prompts.fits(q, k_cache, sequences, max_seqlen_k):
        return short_prompts.attention(
            q, k_cache, v_cache, cu_seqlens_q, seqused_k, block_table, softmax_scale
        )
    mixed = sequences * max_seqlen_q > 4 * tokens
    if mixed or not prompts:
        by_head = (strides[0], strides[2], strides[1])
        decode(
            q,
            k_cache,
            v_cache,
            block_table,
            None if max_seqlen_q == 1 and tokens == sequences else cu_seqlens_q,
            seqused_k,
            max_seqlen_k,
            softmax_scale,
            out,
            kv_heads=kv_heads,
            page=page,
            k_strides=(*by_head, 0),
            v_strides=(*by_head, 1),
            x=triton.next_power_of_2(dim),
            tokens=min(few, max_seqlen_q),
        )
        if not prompts:
            return out
    # Blocks are counted by the longest prompt: not where most are much shorter. And a few short
    # ones end before copies are under way.
    if hopper and not mixed and max_seqlen_k > short_prompts.ON_CHIP:
        return attention(
            q, k_cache, v_cache, cu_seqlens_q, seqused_k, block_table, max_seqlen_q, softmax_scale
        )
    width = triton.next_power_of_2(dim)
    wide = width > 128
    many = tokens * heads >= 128 * processors(q.device)
    rows = 128 if width <= 64 or (wide and many) else 64
    rows = max(min(rows, triton.next_power_of_2(max_seqlen_q * group)), 16)
    rows = max(rows, triton.next_power_of_2(group))
    blocks = tokens // (rows // group) + sequences
    prefill_kernel[(kv_heads, blocks)](
        q,
        k_cache,
        v_cache,
        out,
        cu_seqlens_q,
        seqused_k,
        block_table,
        softmax_scale * LOG2_E,
        sequences,
        q.stride(0),
        q.stride(1),
        strides[0],
        strides[1],
        strides[2],
        block_table.stride(0),
        GROUP=group,
        DIM=dim,
        WIDTH=width,
        PAGE=page,
        ROWS=rows,
        KEYS=64,
        FEW=few if mixed else 0,
        num_warps=8 if rows == 128 else 4,
        num_stages=2 if wide else 3,
    )
    return out
