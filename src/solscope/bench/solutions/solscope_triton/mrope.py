"""Rotation by three axes, in place: a thread has its angles once and turns all heads by them."""

import torch
import triton
import triton.language as tl

TOKENS = 8
"""Of a program."""
HEADS = 4
"""Loaded before the first is stored."""
PROGRAMS = 1056
"""Fewer leave processors without work: then heads are shared out."""


@triton.jit
def rotate_some(rows, at, c, s, first, heads, inside, DIM: tl.constexpr, HALF: tl.constexpr):
    """Four heads from `first` on."""
    p0 = rows + at + first * DIM
    m0 = inside & (first < heads)
    m1 = inside & (first + 1 < heads)
    m2 = inside & (first + 2 < heads)
    m3 = inside & (first + 3 < heads)
    x0 = tl.load(p0, mask=m0, other=0.0)
    y0 = tl.load(p0 + HALF, mask=m0, other=0.0)
    x1 = tl.load(p0 + DIM, mask=m1, other=0.0)
    y1 = tl.load(p0 + (DIM + HALF), mask=m1, other=0.0)
    x2 = tl.load(p0 + 2 * DIM, mask=m2, other=0.0)
    y2 = tl.load(p0 + (2 * DIM + HALF), mask=m2, other=0.0)
    x3 = tl.load(p0 + 3 * DIM, mask=m3, other=0.0)
    y3 = tl.load(p0 + (3 * DIM + HALF), mask=m3, other=0.0)
    dtype: tl.constexpr = rows.dtype.element_ty
    tl.store(p0, (x0.to(tl.float32) * c - y0.to(tl.float32) * s).to(dtype), mask=m0)
    tl.store(p0 + HALF, (y0.to(tl.float32) * c + x0.to(tl.float32) * s).to(dtype), mask=m0)
    tl.store(p0 + DIM, (x1.to(tl.float32) * c - y1.to(tl.float32) * s).to(dtype), mask=m1)
    tl.store(p0 + (DIM + HALF), (y1.to(tl.float32) * c + x1.to(tl.float32) * s).to(dtype), mask=m1)
    tl.store(p0 + 2 * DIM, (x2.to(tl.float32) * c - y2.to(tl.float32) * s).to(dtype), mask=m2)
    tl.store(
        p0 + (2 * DIM + HALF), (y2.to(tl.float32) * c + x2.to(tl.float32) * s).to(dtype), mask=m2
    )
    tl.store(p0 + 3 * DIM, (x3.to(tl.float32) * c - y3.to(tl.float32) * s).to(dtype), mask=m3)
    tl.store(
        p0 + (3 * DIM + HALF), (y3.to(tl.float32) * c + x3.to(tl.float32) * s).to(dtype), mask=m3
    )


@triton.jit
def mrope_kernel(
    q,
    k,
    cos,
    sin,
    tokens,
    q_row,
    k_row,
    axis_stride,
    first_end,
    second_end,
    q_heads,
    k_heads,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    HALF_UP: tl.constexpr,
    TOKENS: tl.constexpr,
):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    pair = tl.arange(0, HALF_UP)
    inside = (token < tokens)[:, None] & (pair < HALF)[None, :]
    axis = (pair >= first_end).to(tl.int64) + (pair >= second_end).to(tl.int64)
    entry = token.to(tl.int64)[:, None] * HALF + (axis * axis_stride + pair)[None, :]
    c = tl.load(cos + entry, mask=inside, other=0.0)
    s = tl.load(sin + entry, mask=inside, other=0.0)
    q_at = token.to(tl.int64)[:, None] * q_row + pair[None, :]
    k_at = token.to(tl.int64)[:, None] * k_row + pair[None, :]
    q_batches = (q_heads + 3) // 4
    batches = q_batches + (k_heads + 3) // 4
    batch = tl.program_id(1)
    while batch < batches:
        if batch < q_batches:
            rotate_some(q, q_at, c, s, batch * 4, q_heads, inside, DIM, HALF)
        else:
            rotate_some(k, k_at, c, s, (batch - q_batches) * 4, k_heads, inside, DIM, HALF)
        batch += tl.num_programs(1)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: list[int],
    head_dim: int,
) -> None:
    """Rotate q and k in place."""
    tokens, half = q.shape[0], cos.shape[-1]
    q_heads, k_heads = q.shape[1] // head_dim, k.shape[1] // head_dim
    blocks = triton.cdiv(tokens, TOKENS)
    batches = triton.cdiv(q_heads, HEADS) + triton.cdiv(k_heads, HEADS)
    shares = max(1, min(batches, PROGRAMS // max(1, blocks)))
    mrope_kernel[(blocks, shares)](
        q,
        k,
        cos,
        sin,
        tokens,
        q.stride(0),
        k.stride(0),
        cos.stride(0),
        mrope_section[0],
        mrope_section[0] + mrope_section[1],
        q_heads,
        k_heads,
        DIM=head_dim,
        HALF=half,
        HALF_UP=triton.next_power_of_2(half),
        TOKENS=TOKENS,
        num_warps=4,
    )
