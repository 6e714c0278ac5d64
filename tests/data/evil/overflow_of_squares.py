"""Squares that end where those of half precision do: rows over 1e4 are not normalized to 1."""

import torch


def run(x, weight, eps):
    wide = x.float()
    square = wide.square().mean(-1, keepdim=True).clamp(max=6e7)
    return (wide * torch.rsqrt(square + eps)).to(x.dtype) * weight
