"""fp8 GEMM with block scales: partial sums of 128 values are scaled and added in fp32.

Large ones on Hopper are in `_scaled.py`.
"""

import torch
import triton
import triton.language as tl
from _scaled import product, supports

SCALED = 128


@triton.jit
def scaled_kernel(
    a,
    b,
    out,
    a_scale,
    b_scale,
    m,
    n,
    k,
    a_scale_row,
    b_scale_row,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUP: tl.constexpr,
):
    program = tl.program_id(0)
    tall, wide = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    # blocks of GROUP rows of tiles share their columns of b in the L2 cache
    band = program // (GROUP * wide)
    first = band * GROUP
    size = tl.minimum(tall - first, GROUP)
    row = (first + (program % (GROUP * wide)) % size) * ROWS + tl.arange(0, ROWS)
    column = ((program % (GROUP * wide)) // size) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, SCALED)
    known, inside = row < m, column < n
    long = row.to(tl.int64)
    a_at = a + long[:, None] * k + depth[None, :]
    b_at = b + column.to(tl.int64)[None, :] * k + depth[:, None]
    rows_at = a_scale + long * a_scale_row
    columns_at = b_scale + (column // SCALED) * b_scale_row
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for group in range(tl.cdiv(k, SCALED)):
        deep = group * SCALED + depth < k
        left = tl.load(a_at, mask=known[:, None] & deep[None, :], other=0.0)
        right = tl.load(b_at, mask=deep[:, None] & inside[None, :], other=0.0)
        rows = tl.load(rows_at + group, mask=known, other=0.0)
        columns = tl.load(columns_at + group, mask=inside, other=0.0)
        sums += tl.dot(left, right) * rows[:, None] * columns[None, :]
        a_at += SCALED
        b_at += SCALED
    at = out + long[:, None] * n + column[None, :]
    tl.store(at, sums.to(out.dtype.element_ty), mask=known[:, None] & inside[None, :])


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[m, n] in `out_dtype`."""
    (m, k), n = a.shape, b.shape[0]
    out = torch.empty(m, n, dtype=getattr(torch, out_dtype), device=a.device)
    if supports(a, b):
        product(a, b, a_scales, b_scales, out)
        return out
    rows = 16 if m <= 16 else 32 if m <= 32 else 64 if m <= 512 else 128
    columns = 32 if m <= 64 else 64 if m <= 512 else 128
    scaled_kernel[(triton.cdiv(m, rows) * triton.cdiv(n, columns),)](
        a,
        b,
        out,
        a_scales,
        b_scales,
        m,
        n,
        k,
        a_scales.stride(0),
        b_scales.stride(0),
        SCALED=SCALED,
        ROWS=rows,
        COLUMNS=columns,
        GROUP=8,
        num_warps=8 if rows == 128 else 4,
        num_stages=4 if rows <= 64 else 3,
    )
    return out
