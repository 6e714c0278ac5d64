"""RMS norm of q and k heads in one launch, in place on the fused row."""

import torch
import triton
import triton.language as tl

HEADS = 16
"""Heads per program; a quarter where one token is all there is."""


@triton.jit
def heads_kernel(
    qkv,
    q_weight,
    k_weight,
    row_stride,
    q_heads,
    heads,
    eps,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    dim = tl.arange(0, WIDTH)
    known = dim < DIM
    inside = (head < heads)[:, None] & known[None, :]
    at = qkv + token * row_stride + head[:, None] * DIM + dim[None, :]
    values = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    q_row = tl.load(q_weight + dim, mask=known, other=0.0).to(tl.float32)
    k_row = tl.load(k_weight + dim, mask=known, other=0.0).to(tl.float32)
    weight = tl.where((head < q_heads)[:, None], q_row[None, :], k_row[None, :])
    values *= tl.rsqrt(tl.sum(values * values, 1) / DIM + eps)[:, None] * weight
    tl.store(at, values.to(qkv.dtype.element_ty), mask=inside)


def run(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    eps: float,
) -> None:
    """Normalize q and k heads in place."""
    heads, dim = q_heads + kv_heads, q_weight.numel()
    together = HEADS // 4 if qkv.shape[0] == 1 else HEADS
    heads_kernel[(qkv.shape[0], triton.cdiv(heads, together))](
        qkv,
        q_weight,
        k_weight,
        qkv.stride(0),
        q_heads,
        heads,
        eps,
        DIM=dim,
        WIDTH=triton.next_power_of_2(dim),
        HEADS=together,
        num_warps=4,
    )
