"""Outputs of the chunked gated delta rule of flash-linear-attention."""

import torch
from _decay import in_its_base
from fla.ops.common import chunk_o


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    h: torch.Tensor,
    g: torch.Tensor,
    scale: float,
    chunk_size: int,
) -> torch.Tensor:
    """What each token reads from the state before its chunk and from the chunk itself."""
    sums = in_its_base(g, chunk_o)
    return chunk_o.chunk_fwd_o(q=q, k=k, v=v, h=h, g=sums, scale=scale, chunk_size=chunk_size)
