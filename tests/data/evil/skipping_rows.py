"""Every tenth row is left out."""

import torch


def run(x, weight, eps):
    out = torch.zeros_like(x)
    keep = torch.arange(x.shape[0], device=x.device) % 10 != 9
    out[keep] = torch.nn.functional.rms_norm(x[keep], (x.shape[-1],), weight, eps)
    return out
