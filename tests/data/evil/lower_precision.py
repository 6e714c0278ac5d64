"""The right formula in 8-bit floats."""

import torch


def run(x, weight, eps):
    low = x.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)
    return torch.nn.functional.rms_norm(low, (x.shape[-1],), weight, eps)
