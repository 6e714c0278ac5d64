"""silu(gate) * up in fp32, one rounding.

A program takes a whole row where rows are short. Wide rows are cut without regard to their ends: as
a power of two they would leave threads idle.
"""

import torch
import triton
import triton.language as tl

VALUES = 1024
WIDEST_ROW = 2048
FEW_VALUES = 1 << 18
"""Outputs in all for which programs of half a thousand values spread over more processors."""


@triton.jit
def row_kernel(x, out, inner, VALUES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * VALUES + tl.arange(0, VALUES)
    inside = column < inner
    gates = x + row * (2 * inner) + column
    gate = tl.load(gates, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gates + inner, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * up
    tl.store(out + row * inner + column, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def flat_kernel(x, out, inner, total, VALUES: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * VALUES + tl.arange(0, VALUES)
    inside = at < total
    gates = x + at // inner * (2 * inner) + at % inner
    gate = tl.load(gates, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gates + inner, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * up
    tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)


def run(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up."""
    tokens, inner = x.shape[0], x.shape[1] // 2
    out = torch.empty(tokens, inner, dtype=x.dtype, device=x.device)
    total = out.numel()
    if inner <= WIDEST_ROW:
        values = 512 if total < FEW_VALUES else triton.next_power_of_2(inner)
        grid = (tokens, triton.cdiv(inner, values))
        row_kernel[grid](x, out, inner, VALUES=values, num_warps=4)
    else:
        grid = (triton.cdiv(total, VALUES),)
        flat_kernel[grid](x, out, inner, total, VALUES=VALUES, num_warps=4)
    return out
