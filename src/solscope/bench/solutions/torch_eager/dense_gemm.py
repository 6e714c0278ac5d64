"""Dense GEMM: linear for 16 bits, torch._scaled_mm for fp8."""

import torch
from torch.nn.functional import linear


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    a_scale: torch.Tensor | None,
    b_scale: torch.Tensor | None,
    out_dtype: str,
) -> torch.Tensor:
    """[m, n] in `out_dtype`."""
    dtype = getattr(torch, out_dtype)
    if a_scale is None or b_scale is None:
        if dtype == a.dtype:
            return linear(a, b, bias)
        if a.is_cuda and dtype == torch.float32:
            out = torch.mm(a, b.T, out_dtype=dtype)
            return out if bias is None else out.add_(bias)
        return linear(a.float(), b.float(), None if bias is None else bias.float()).to(dtype)
    if a.shape[1] % 16 or b.shape[0] % 16 or not a.is_cuda:
        out = (a.float() @ b.float().T).mul_(a_scale).mul_(b_scale)
        return (out if bias is None else out.add_(bias)).to(dtype)
    return torch._scaled_mm(
        a, b.T, scale_a=a_scale, scale_b=b_scale, bias=bias, out_dtype=dtype, use_fast_accum=True
    )
