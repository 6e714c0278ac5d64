"""fp8 GEMM with block scales of sglang-kernel (CUTLASS); it writes bf16."""

import torch
from _sgl_kernel import ops
from torch.nn.functional import pad

ROWS = 4
"""Rows are a multiple of this."""


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[m, n] in `out_dtype`."""
    (m, k), n = a.shape, b.shape[0]
    if k % 128 or n % 128:
        raise NotImplementedError("whole blocks of 128 only")
    missing = -m % ROWS
    if missing:
        a = pad(a.view(torch.uint8), (0, 0, 0, missing)).view(a.dtype)
        a_scales = pad(a_scales, (0, 0, 0, missing))
    columns = a_scales.T.contiguous().T
    out: torch.Tensor = ops.fp8_blockwise_scaled_mm(a, b.T, columns, b_scales.T, torch.bfloat16)
    return out[:m].to(getattr(torch, out_dtype))
