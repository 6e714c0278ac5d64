"""Rotation in fp32 with cosines and sines picked by axis."""

from __future__ import annotations

import torch


def _by_axis(table: torch.Tensor, sections: list[int]) -> torch.Tensor:
    parts = torch.split(table, sections, dim=-1)
    return torch.cat([part[axis] for axis, part in enumerate(parts)], dim=-1).unsqueeze(1)


def _rotate(flat: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, head_dim: int) -> None:
    half = cos.shape[-1]
    heads = flat.view(flat.shape[0], -1, head_dim)
    x, y = heads[..., :half], heads[..., half : 2 * half]
    wide_x, wide_y = x.float(), y.float()
    x.copy_(wide_x * cos - wide_y * sin)
    y.copy_(wide_y * cos + wide_x * sin)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: list[int],
    head_dim: int,
) -> None:
    """Rotate q and k in place."""
    cosine, sine = _by_axis(cos, mrope_section), _by_axis(sin, mrope_section)
    _rotate(q, cosine, sine, head_dim)
    _rotate(k, cosine, sine, head_dim)
