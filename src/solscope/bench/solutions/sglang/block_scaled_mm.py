"""Block-scaled fp8 GEMM of SGLang, with its tuned tiles where it has some for this GPU."""

import torch
from _sglang import kernels

multiply = kernels("quantization.fp8_kernel").w8a8_block_fp8_matmul_triton


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    out_dtype: str,
) -> torch.Tensor:
    """[m, n] in `out_dtype`."""
    out: torch.Tensor = multiply(a, b, a_scales, b_scales, [128, 128], getattr(torch, out_dtype))
    return out
