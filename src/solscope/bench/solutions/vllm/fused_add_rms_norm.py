"""Addition and RMS norm of vLLM, in place."""

import torch
from _vllm import load

load("_C_stable_libtorch.abi3.so")


def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Add x to the residual, then normalize it into x."""
    torch.ops._C.fused_add_rms_norm(x, residual, weight, eps)
