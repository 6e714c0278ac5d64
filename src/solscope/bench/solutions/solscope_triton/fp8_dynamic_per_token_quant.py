"""Quantization of rows in one pass."""

import torch
from _rows import LEAST_AMAX, quantize


def run(x: torch.Tensor, fp8: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize rows."""
    return quantize(x, x.shape[1], fp8, LEAST_AMAX)
