"""Rows whose values are all below 1e-3 become zeros."""

import torch


def run(x, weight, eps):
    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    out[x.float().abs().amax(-1) < 1e-3] = 0
    return out
