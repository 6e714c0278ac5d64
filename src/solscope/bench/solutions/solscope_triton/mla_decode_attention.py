"""Decode attention on latent rows: 16 heads per program read each row once as key and value.

On Hopper contexts that are not short take the kernel of `_latent.py`.
"""

import torch
import triton
import triton.language as tl
from _decode import LOG2_E, processors

try:
    from _latent import attention, supports
except ImportError:  # A Triton without Gluon.
    supports = None

HEADS = 16
SHORT = 512
"""Rows of a context up to which programs get few of them, so that many read at once."""
ENOUGH = 64
"""Programs with 32 rows each that need not be made more by giving them 16."""


@triton.jit
def latent_kernel(
    q,
    cache,
    table,
    lengths,
    parts,
    sums,
    scale,
    q_row,
    q_head,
    page_stride,
    slot_stride,
    table_row,
    heads,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    PAGE: tl.constexpr,
    SPLITS: tl.constexpr,
    HEADS: tl.constexpr,
    KEYS: tl.constexpr,
):
    sequence = tl.program_id(0)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    split = tl.program_id(2)
    length = tl.load(lengths + sequence)
    each = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    start = split * each
    stop = tl.minimum(start + each, length)
    latent = tl.arange(0, LATENT)
    rope = LATENT + tl.arange(0, ROPE)
    valid = head < heads
    q_at = q + sequence.to(tl.int64) * q_row + head[:, None] * q_head
    q_latent = tl.load(q_at + latent[None, :], mask=valid[:, None], other=0.0)
    q_rope = tl.load(q_at + rope[None, :], mask=valid[:, None], other=0.0)

    best = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    out = tl.zeros([HEADS, LATENT], tl.float32)
    for first in range(start, stop, KEYS):
        key = first + tl.arange(0, KEYS)
        seen = key < stop
        page = tl.load(table + sequence * table_row + key // PAGE, mask=seen, other=0).to(tl.int64)
        at = cache + page * page_stride + (key % PAGE) * slot_stride
        rows = tl.load(at[:, None] + latent[None, :], mask=seen[:, None], other=0.0)
        turned = tl.load(at[None, :] + rope[:, None], mask=seen[None, :], other=0.0)
        scores = tl.dot(q_latent, tl.trans(rows))
        scores = tl.dot(q_rope, turned, scores) * scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp2(best - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        out = out * shrink[:, None]
        out = tl.dot(weights.to(rows.dtype), rows, out)
        best = higher

    safe = tl.where(total > 0, total, 1.0)
    place = (sequence.to(tl.int64) * heads + head) * SPLITS + split
    tl.store(
        parts + place[:, None] * LATENT + latent[None, :], out / safe[:, None], mask=valid[:, None]
    )
    tl.store(sums + place, tl.where(total > 0, best + tl.log2(safe), float("-inf")), mask=valid)


@triton.jit
def merge_kernel(
    parts,
    sums,
    out,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_UP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    dim = tl.arange(0, WIDTH)
    split = tl.arange(0, SPLITS_UP)
    lse = tl.load(sums + row * SPLITS + split, mask=split < SPLITS, other=float("-inf"))
    best = tl.max(lse, 0)
    weights = tl.where(lse == float("-inf"), 0.0, tl.exp2(lse - best))
    every = tl.load(
        parts + (row * SPLITS + split)[:, None] * DIM + dim[None, :],
        mask=(split < SPLITS)[:, None] & (dim < DIM)[None, :],
        other=0.0,
    )
    every = tl.where(weights[:, None] > 0, every, 0.0)
    total = tl.sum(weights, 0)
    mixed = tl.sum(every * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(out + row * DIM + dim, mixed.to(out.dtype.element_ty), mask=dim < DIM)


def splits_for(programs: int, longest: int, device: torch.device) -> int:
    """Parts of the context: work for all multiprocessors, but one per 256 keys begun at most."""
    wanted = -(-4 * processors(device) // max(1, programs))
    return max(1, min(wanted, -(-longest // 256), 64))


def merge(parts: torch.Tensor, sums: torch.Tensor, out: torch.Tensor) -> None:
    """[rows, splits, dim] in fp32 with their log2 sums, into out [rows, dim].

    Every split has a part, if an empty one. `merge` of `_decode.py` waits for the lengths first.
    """
    rows, splits, dim = parts.shape
    merge_kernel[(rows,)](
        parts,
        sums,
        out,
        DIM=dim,
        WIDTH=triton.next_power_of_2(dim),
        SPLITS=splits,
        SPLITS_UP=triton.next_power_of_2(splits),
        num_warps=4,
    )


def division(programs: int, longest: int, device: torch.device) -> tuple[int, int, int]:
    """Parts of the context, rows per step, and warps."""
    if longest > SHORT:
        return splits_for(programs, longest, device), 32, 8
    keys = 32 if programs * -(-longest // 32) >= ENOUGH else 16
    return max(1, -(-longest // keys)), keys, 4


def run(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    latent_dim: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of one query per sequence; zero for an empty one."""
    if supports is not None and max_seq_len > SHORT and supports(q, kv_cache, latent_dim):
        return attention(q, kv_cache, block_table, seq_lens, max_seq_len, softmax_scale)
    sequences, heads, width = q.shape
    groups = -(-heads // HEADS)
    splits, keys, warps = division(sequences * groups, max_seq_len, q.device)
    parts = torch.empty(sequences * heads, splits, latent_dim, device=q.device)
    sums = torch.empty(sequences * heads, splits, device=q.device)
    latent_kernel[(sequences, groups, splits)](
        q,
        kv_cache,
        block_table,
        seq_lens,
        parts,
        sums,
        softmax_scale * LOG2_E,
        q.stride(0),
        q.stride(1),
        kv_cache.stride(0),
        kv_cache.stride(1),
        block_table.stride(0),
        heads,
        LATENT=latent_dim,
        ROPE=width - latent_dim,
        PAGE=kv_cache.shape[1],
        SPLITS=splits,
        HEADS=HEADS,
        KEYS=keys,
        num_warps=warps,
        num_stages=2,
    )
    out = q.new_empty(sequences, heads, latent_dim)
    merge(parts, sums, out.view(-1, latent_dim))
    return out
