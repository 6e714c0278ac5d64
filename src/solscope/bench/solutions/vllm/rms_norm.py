"""RMS norm of vLLM."""

import torch
from _vllm import load

load("_C_stable_libtorch.abi3.so")


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalize rows."""
    out = torch.empty_like(x)
    torch.ops._C.rms_norm(out, x, weight, eps)
    return out
