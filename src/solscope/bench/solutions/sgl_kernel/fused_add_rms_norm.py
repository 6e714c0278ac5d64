"""Addition and RMS norm of sglang-kernel (from FlashInfer), in place."""

import torch
from _sgl_kernel import ops


def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Add x to the residual, then normalize it into x."""
    ops.fused_add_rmsnorm(x, residual, weight, eps, True)
