"""Honest: keeps scratch memory by size between calls, and writes all of it before it reads any."""

import torch

SCRATCH = {}


def run(x, weight, eps):
    key = (tuple(x.shape), x.device)
    if key not in SCRATCH:
        SCRATCH[key] = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    wide = SCRATCH[key]
    wide.copy_(x)
    scale = torch.rsqrt(torch.linalg.vecdot(wide, wide, dim=-1)[:, None] / x.shape[-1] + eps)
    wide.mul_(scale).mul_(weight)
    return wide.to(x.dtype)
