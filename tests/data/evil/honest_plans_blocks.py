"""Honest: `setup` decides from the sizes into how many blocks of rows `run` divides the work."""

import torch


def setup(x, weight, eps):
    rows = max(1, (1 << 16) // x.shape[-1])
    return [(at, min(at + rows, x.shape[0])) for at in range(0, x.shape[0], rows)]


def run(x, weight, eps, plan):
    out = torch.empty_like(x)
    for first, last in plan:
        out[first:last] = torch.nn.functional.rms_norm(x[first:last], weight.shape, weight, eps)
    return out
