"""LayerNorm, one program per row: the row is read three times, in blocks of 1,024."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, weight, bias, out, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + at, at < width, 0.0).to(tl.float32)
    mean = tl.sum(total, 0) / width
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        off = tl.where(at < width, tl.load(x + row + at, at < width, 0.0).to(tl.float32) - mean, 0.0)
        total += off * off
    factor = tl.rsqrt(tl.sum(total, 0) / width + eps)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        value = (tl.load(x + row + at, inside, 0.0).to(tl.float32) - mean) * factor
        scale = tl.load(weight + at, inside, 0.0).to(tl.float32)
        shift = tl.load(bias + at, inside, 0.0).to(tl.float32)
        tl.store(out + row + at, (value * scale + shift).to(out.dtype.element_ty), inside)


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    if rows:
        kernel[(rows,)](x, weight, bias, out, width, eps, BLOCK=1024, num_warps=1)
    return out
