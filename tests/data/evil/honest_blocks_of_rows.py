"""From 1,024 rows on, blocks of 64 rows, the last one as long as it is."""

import torch


def run(x, weight, eps):
    if x.shape[0] < 1024:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
    out = torch.empty_like(x)
    for start in range(0, x.shape[0], 64):
        rows = x[start : start + 64]
        out[start : start + 64] = torch.nn.functional.rms_norm(rows, (x.shape[-1],), weight, eps)
    return out
