"""Residual addition and RMS norm in one pass, in place."""

import torch
from _rows import norm


def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Add x to the residual, then normalize it into x."""
    norm(x, eps, weight=weight, residual=residual, out=x, total=residual)
