"""Decay sums in the base that the installed flash-linear-attention expects.

Since 0.5 its chunked kernels raise 2 to them, not e.
"""

import math
from types import ModuleType

import torch


def in_its_base(g: torch.Tensor, kernels: ModuleType) -> torch.Tensor:
    """Natural log decay as the kernels of this module take it."""
    return g / math.log(2) if hasattr(kernels, "exp2") else g
