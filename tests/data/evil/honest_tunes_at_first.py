"""Honest: times two ways on the first call for a size, and takes the faster one from then on."""

import time

import torch

CHOSEN = {}


def fused(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


def written_out(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)


def took(way, *inputs):
    start = time.perf_counter()
    for _ in range(20):
        way(*inputs)
    if inputs[0].is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def run(x, weight, eps):
    size = tuple(x.shape)
    if size not in CHOSEN:
        CHOSEN[size] = min((written_out, fused), key=lambda way: took(way, x, weight, eps))
    return CHOSEN[size](x, weight, eps)
