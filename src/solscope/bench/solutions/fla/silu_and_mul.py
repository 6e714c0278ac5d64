"""SwiGLU of flash-linear-attention, on the two halves of a row."""

import torch
from fla.modules.activations import swiglu


def run(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up."""
    gate, up = x.chunk(2, dim=-1)
    return swiglu(gate, up)
