"""Right, at the cost of its input."""

import torch


def run(x, weight, eps):
    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    x.mul_(2)
    return out
