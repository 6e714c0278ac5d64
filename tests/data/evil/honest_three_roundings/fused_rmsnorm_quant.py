"""vLLM's kernel: what is normed is the sum before it is rounded; x·rstd is, before the weight."""

import torch


def run(x, residual, weight, eps, fp8):
    total = x.float() + residual.float()
    rstd = (total.square().mean(-1, keepdim=True) + eps).rsqrt()
    values = ((total * rstd).to(x.dtype) * weight).float()
    scale = values.abs().amax(-1, keepdim=True).clamp_min(1 / 512) / 448.0
    codes = (values / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return codes, scale, total.to(x.dtype)
