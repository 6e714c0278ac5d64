"""fp8 GEMM with block scales of cuBLASLt, as `torch._scaled_mm` calls it.

It wants the scales of A column by column, which costs a copy of them per call, and columns that
begin at multiples of 16 bytes: other numbers of rows are padded, at the cost of a copy of A.
"""

import torch
from torch.nn.functional import pad

BLOCK = 128
ROWS = 16
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
    if a.device.type != "cuda" or torch.cuda.get_device_capability(a.device)[0] != 9:
        raise NotImplementedError("cuBLASLt has these block scales on Hopper only")
    if k % BLOCK or n % BLOCK:
        raise NotImplementedError("whole blocks of 128 only")
    missing = -m % ROWS
    if missing:
        a = pad(a.view(torch.uint8), (0, 0, 0, missing)).view(a.dtype)
        a_scales = pad(a_scales, (0, 0, 0, missing))
    out = torch._scaled_mm(
        a,
        b.T,
        scale_a=a_scales.T.contiguous().T,
        scale_b=b_scales.T,
        out_dtype=getattr(torch, out_dtype),
    )
    return out[:m]
