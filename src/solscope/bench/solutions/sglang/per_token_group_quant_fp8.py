"""Group quantization of SGLang, the Triton kernel."""

import torch
from _sglang import kernels

quantize = kernels("quantization.fp8_kernel")._per_token_group_quant_8bit_raw


def run(x: torch.Tensor, group_size: int, fp8: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize groups of each row."""
    dtype = getattr(torch, f"float8_{fp8}")
    codes, scales = quantize(x, group_size, dtype=dtype)
    return codes, scales
