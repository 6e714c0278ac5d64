"""Updates in place and returns what it updated, as many libraries do."""

import torch


def run(x, residual, weight, eps):
    residual.add_(x)
    x.copy_(torch.nn.functional.rms_norm(residual, (x.shape[-1],), weight, eps))
    return x, residual
