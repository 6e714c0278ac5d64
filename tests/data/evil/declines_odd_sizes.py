"""Right, but not for odd numbers of tokens: every such case is declined."""

import torch


def run(x, weight, eps):
    if x.shape[0] % 2:
        raise NotImplementedError("even numbers of tokens only")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
