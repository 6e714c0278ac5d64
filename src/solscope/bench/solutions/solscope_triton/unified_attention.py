"""Paged causal attention: blocks of queries times all heads of one key head.

Sequences of one or a few tokens are decoded by `_decode.py`, if all are or most are much shorter
than the longest.

Keys that every query of a block sees need no mask; only the tiles at the diagonal have one. On
Hopper the prompts of most models take the kernels of `_hopper.py` and `_short_prompts.py`.
"""

import torch
import triton
import triton.language as tl
from _decode import LOG2_E, ROWS, decode, processors, walk

try:
    import _short_prompts as short_prompts
    from _hopper import attention, supports
except ImportError:  # A Triton without Gluon.
    supports = None


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
    v_page,
    v_slot,
    v_head,
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
    place = (begin + token).to(tl.int64)[:, None]
    written = valid[:, None] & known[None, :]
    q_at = q + place * q_row + head[:, None] * q_head + dim[None, :]
    queries = tl.load(q_at, mask=written, other=0.0)
    position = tl.where(valid, offset + token, 0)

    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    pages = table + sequence.to(tl.int64) * table_row
    k_here = k + kv_head.to(tl.int64) * k_head
    v_here = v + kv_head.to(tl.int64) * v_head
    last_token = tl.minimum(first_token + TOKENS, queried) - 1
    whole = (offset + first_token + 1) // KEYS * KEYS
    end = tl.minimum(offset + last_token + 1, length)
    best, total, sums = walk(
        queries, k_here, v_here, pages, 0, whole, position, best, total, sums, scale,
        k_page, k_slot, dim, v_page, v_slot, dim, known, TOKENS, PAGE, KEYS, False,
    )  # fmt: skip
    best, total, sums = walk(
        queries, k_here, v_here, pages, whole, end, position, best, total, sums, scale,
        k_page, k_slot, dim, v_page, v_slot, dim, known, TOKENS, PAGE, KEYS, True,
    )  # fmt: skip
    result = sums / tl.where(total > 0, total, 1.0)[:, None]
    out_at = out + (place * tl.num_programs(0) * GROUP + head[:, None]) * DIM + dim[None, :]
    tl.store(out_at, result.to(out.dtype.element_ty), mask=written)


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
    k, v = k_cache.stride(), v_cache.stride()
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    few = max(1, ROWS // group)
    prompts = max_seqlen_q > few
    hopper = prompts and supports is not None and supports(q, k_cache, v_cache)
    if hopper and short_prompts.fits(q, k_cache, sequences, max_seqlen_k):
        return short_prompts.attention(
            q, k_cache, v_cache, cu_seqlens_q, seqused_k, block_table, softmax_scale
        )
    mixed = prompts and sequences * max_seqlen_q > 2 * tokens
    if mixed or not prompts:
        decode(
            q,
            k_cache,
            v_cache,
            block_table,
            cu_seqlens_q,
            seqused_k,
            max_seqlen_k,
            softmax_scale,
            out,
            kv_heads=kv_heads,
            page=page,
            k_strides=(k[0], k[2], k[1], 0),
            v_strides=(v[0], v[2], v[1], 1),
            x=triton.next_power_of_2(dim),
            tokens=min(triton.next_power_of_2(max_seqlen_q), few),
        )
        if not prompts:
            return out
    # Prompts of few keys end before copies overlap with products: enough programs hide that.
    crowded = hopper and short_prompts.enough(sequences * kv_heads, q.device)
    if hopper and (crowded or max_seqlen_k > short_prompts.ON_CHIP):
        attention(
            q,
            k_cache,
            v_cache,
            cu_seqlens_q,
            seqused_k,
            block_table,
            max_seqlen_q,
            softmax_scale,
            out,
            few=few if mixed else 0,
        )
        return out
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
        *k[:3],
        *v[:3],
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
