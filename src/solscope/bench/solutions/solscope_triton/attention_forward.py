"""Full attention over packed sequences, a block of queries per program.

Heads of 72 or 80 values are 64 and a rest of 16, not padded to 128. On Hopper long sequences take
the kernel of `_hopper.py`.
"""

import torch
import triton
import triton.language as tl

try:
    from _hopper import full_attention, runs_here
except ImportError:  # A Triton without Gluon.
    runs_here = None

LOG2_E = 1.4426950408889634


@triton.jit
def attend_kernel(
    q,
    k,
    v,
    out,
    q_starts,
    k_starts,
    scale,
    row_stride,
    DIM: tl.constexpr,
    MAIN: tl.constexpr,
    REST: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    block = tl.program_id(0)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    begin = tl.load(q_starts + sequence)
    queried = tl.load(q_starts + sequence + 1) - begin
    if block * ROWS >= queried:
        return
    first = tl.load(k_starts + sequence)
    length = tl.load(k_starts + sequence + 1) - first

    row = block * ROWS + tl.arange(0, ROWS)
    valid = row < queried
    main = tl.arange(0, MAIN)
    at = (begin + row).to(tl.int64)[:, None] * row_stride + head * DIM
    q_main = tl.load(q + at + main[None, :], mask=valid[:, None] & (main < DIM)[None, :], other=0.0)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, MAIN], tl.float32)
    if REST:
        rest = MAIN + tl.arange(0, REST)
        q_rest = tl.load(
            q + at + rest[None, :], mask=valid[:, None] & (rest < DIM)[None, :], other=0.0
        )
        sums_rest = tl.zeros([ROWS, REST], tl.float32)
    for start in range(0, length, KEYS):
        key = start + tl.arange(0, KEYS)
        inside = key < length
        place = (first + key).to(tl.int64) * row_stride + head * DIM
        keys = tl.load(
            k + place[None, :] + main[:, None],
            mask=(main < DIM)[:, None] & inside[None, :],
            other=0.0,
        )
        scores = tl.dot(q_main, keys)
        if REST:
            keys_rest = tl.load(
                k + place[None, :] + rest[:, None],
                mask=(rest < DIM)[:, None] & inside[None, :],
                other=0.0,
            )
            scores = tl.dot(q_rest, keys_rest, scores)
        scores = tl.where(inside[None, :], scores * scale, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp2(best - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        narrow = weights.to(q.dtype.element_ty)
        values = tl.load(
            v + place[:, None] + main[None, :],
            mask=inside[:, None] & (main < DIM)[None, :],
            other=0.0,
        )
        sums = tl.dot(narrow, values, sums * shrink[:, None])
        if REST:
            values_rest = tl.load(
                v + place[:, None] + rest[None, :],
                mask=inside[:, None] & (rest < DIM)[None, :],
                other=0.0,
            )
            sums_rest = tl.dot(narrow, values_rest, sums_rest * shrink[:, None])
        best = higher
    safe = tl.where(total > 0, total, 1.0)[:, None]
    written = valid[:, None] & (main < DIM)[None, :]
    tl.store(out + at + main[None, :], (sums / safe).to(out.dtype.element_ty), mask=written)
    if REST:
        written = valid[:, None] & (rest < DIM)[None, :]
        result = (sums_rest / safe).to(out.dtype.element_ty)
        tl.store(out + at + rest[None, :], result, mask=written)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    _, heads, dim = q.shape
    sequences = len(cu_seqlens_q) - 1
    # One sequence: of several, some may have no keys, or be much shorter than the longest.
    long = sequences == 1 and max_seqlen_q >= 1024 and max_seqlen_k > 0
    if long and runs_here is not None and runs_here(q, k, v):
        return full_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, softmax_scale)
    split = 64 < dim <= 80
    main = 64 if split else triton.next_power_of_2(dim)
    rows = 128 if max_seqlen_q > 64 and main <= 128 else 64
    out = torch.empty_like(q)
    attend_kernel[(triton.cdiv(max_seqlen_q, rows), heads, sequences)](
        q,
        k,
        v,
        out,
        cu_seqlens_q,
        cu_seqlens_k,
        softmax_scale * LOG2_E,
        q.stride(0),
        DIM=dim,
        MAIN=main,
        REST=16 if split else 0,
        ROWS=rows,
        KEYS=64,
        num_warps=8 if rows == 128 else 4,
        num_stages=3 if main <= 128 else 2,
    )
    return out
