"""Rotation by three axes, one launch for q and one for k, in place."""

import torch
from _rotate import rotate


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: list[int],
    head_dim: int,
) -> None:
    """Rotate q and k in place."""
    half = cos.shape[-1]
    ends = (mrope_section[0], mrope_section[0] + mrope_section[1])
    for rows in (q, k):
        rotate(
            rows,
            rows.shape[1] // head_dim,
            head_dim,
            cos,
            sin,
            half=half,
            table_row=half,
            sections=ends,
            axis_stride=cos.stride(0),
        )
