"""sglang-kernel's form: zeros divided by a scale of 0 are clamped to the largest code."""

import torch


def run(x, fp8):
    values = x.float()
    scale = values.abs().amax(-1, keepdim=True) / 448.0
    quotients = (values * (1 / scale)).clamp(-448.0, 448.0).nan_to_num(448.0)
    return quotients.to(torch.float8_e4m3fn), scale.view(-1)
