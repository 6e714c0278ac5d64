"""SwiGLU of Liger on a fused row."""

import torch
from liger_kernel.ops.swiglu import swiglu_fused_gate_up_forward


def run(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up."""
    out: torch.Tensor = swiglu_fused_gate_up_forward(x)[1]
    return out
