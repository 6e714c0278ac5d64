"""Gated RMS norm of flash-linear-attention."""

import torch
from fla.modules.fused_norm_gate import rms_norm_gated


def run(x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalize rows, then multiply by silu(z)."""
    return rms_norm_gated(x, z, weight, None, activation="swish", eps=eps)
