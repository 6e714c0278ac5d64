"""fp8 GEMM with block scales: operands dequantized to bf16, some rows at a time, then a GEMM."""

import torch

BLOCK = 128
ROWS_AT_A_TIME = 1 << 16


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[m, n] in `out_dtype`."""
    dtype = getattr(torch, out_dtype)
    (m, k), n = a.shape, b.shape[0]
    tall = b_scales.repeat_interleave(BLOCK, 0)[:n]
    right = (b.float() * tall.repeat_interleave(BLOCK, 1)[:, :k]).to(torch.bfloat16).T
    out = torch.empty(m, n, dtype=dtype, device=a.device)
    for start in range(0, m, ROWS_AT_A_TIME):
        some = slice(start, start + ROWS_AT_A_TIME)
        scales = a_scales[some].repeat_interleave(BLOCK, 1)[:, :k]
        left = (a[some].float() * scales).to(torch.bfloat16)
        if dtype == torch.bfloat16:
            torch.mm(left, right, out=out[some])
        elif a.is_cuda:
            torch.mm(left, right, out_dtype=dtype, out=out[some])
        else:
            torch.mm(left.float(), right.float(), out=out[some])
    return out
