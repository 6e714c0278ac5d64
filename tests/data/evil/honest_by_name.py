"""Honest: returns its output by name, computed in fp64."""

import torch


def run(x, weight, eps):
    wide = torch.nn.functional.rms_norm(x.double(), weight.shape, weight.double(), eps)
    return {"out": wide.to(x.dtype)}
