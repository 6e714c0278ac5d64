"""Top-k of a router in Gluon: a row lies in few threads, so that little is exchanged."""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WARPS = 4


@gluon.jit
def gate_kernel(
    logits,
    weights,
    ids,
    tokens,
    EXPERTS: gl.constexpr,
    EXPERTS_UP: gl.constexpr,
    TOP_K: gl.constexpr,
    TOP_K_UP: gl.constexpr,
    LANES: gl.constexpr,
    WARPS: gl.constexpr,
):
    EACH: gl.constexpr = EXPERTS_UP // LANES
    FEW: gl.constexpr = TOP_K_UP // LANES if TOP_K_UP > LANES else 1
    ROWS: gl.constexpr = WARPS * 32 // LANES
    L: gl.constexpr = gl.BlockedLayout([1, EACH], [32 // LANES, LANES], [WARPS, 1], [1, 0])
    OUT: gl.constexpr = gl.BlockedLayout([1, FEW], [32 // LANES, LANES], [WARPS, 1], [1, 0])
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, L))
    expert = gl.arange(0, EXPERTS_UP, gl.SliceLayout(0, L))
    inside = (row < tokens)[:, None] & (expert < EXPERTS)[None, :]
    at = row.to(gl.int64)[:, None] * EXPERTS + expert[None, :]
    scores = gl.load(logits + at, mask=inside, other=float("-inf"))
    # Integers in the order of the floats; the smallest is none of them and marks what is taken.
    bits = scores.to(gl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    order = gl.where((expert < EXPERTS)[None, :], order, -2147483648)
    largest = gl.max(order, 1)
    best = (largest ^ ((largest >> 31) & 0x7FFFFFFF)).to(gl.float32, bitcast=True)
    safe = gl.where(best == float("-inf"), 0.0, best)
    total = gl.sum(gl.exp(scores - safe[:, None]), 1)
    place = gl.arange(0, TOP_K_UP, gl.SliceLayout(0, OUT))
    chosen_bits = gl.zeros([ROWS, TOP_K_UP], gl.int32, OUT)
    chosen_ids = gl.zeros([ROWS, TOP_K_UP], gl.int32, OUT)
    for turn in gl.static_range(TOP_K):
        number = gl.min(gl.where(order == largest[:, None], expert[None, :], EXPERTS_UP), 1)
        here = (place == turn)[None, :]
        of_bits = gl.convert_layout(largest, gl.SliceLayout(1, OUT))
        of_ids = gl.convert_layout(number, gl.SliceLayout(1, OUT))
        chosen_bits = gl.where(here, of_bits[:, None], chosen_bits)
        chosen_ids = gl.where(here, of_ids[:, None], chosen_ids)
        if turn + 1 < TOP_K:
            order = gl.where(expert[None, :] == number[:, None], -2147483648, order)
            largest = gl.max(order, 1)
    value = (chosen_bits ^ ((chosen_bits >> 31) & 0x7FFFFFFF)).to(gl.float32, bitcast=True)
    most = gl.convert_layout(safe, gl.SliceLayout(1, OUT))
    share = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, OUT))
    out_row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, OUT))
    written = (out_row < tokens)[:, None] & (place < TOP_K)[None, :]
    target = out_row.to(gl.int64)[:, None] * TOP_K + place[None, :]
    gl.store(weights + target, gl.exp(value - most[:, None]) * share[:, None], mask=written)
    gl.store(ids + target, chosen_ids, mask=written)


def fits(experts: int) -> bool:
    """Rows that few threads of one warp hold, at most 32 values each."""
    return 16 <= experts <= 1024


def gate(logits: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> None:
    """Weights and ids of the largest of each row."""
    (tokens, experts), top_k = logits.shape, weights.shape[1]
    wide = triton.next_power_of_2(experts)
    lanes = min(32, wide // (16 if wide <= 128 else 8))
    rows = WARPS * 32 // lanes
    gate_kernel[(triton.cdiv(tokens, rows),)](
        logits,
        weights,
        ids,
        tokens,
        EXPERTS=experts,
        EXPERTS_UP=wide,
        TOP_K=top_k,
        TOP_K_UP=triton.next_power_of_2(top_k),
        LANES=lanes,
        WARPS=WARPS,
        num_warps=WARPS,
    )
