"""SiLU and product of FlashInfer."""

import torch
from flashinfer.activation import silu_and_mul


def run(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up."""
    return silu_and_mul(x)
