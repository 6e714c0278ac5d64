"""Asks for more memory than there is."""

import torch


def run(x, weight, eps):
    return torch.empty(1 << 50, dtype=torch.uint8, device=x.device)
