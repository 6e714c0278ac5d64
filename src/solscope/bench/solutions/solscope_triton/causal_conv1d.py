"""Depthwise causal convolution with SiLU: tiles of channels and tokens, taps from shifted loads."""

import torch
import triton
import triton.language as tl

CHANNELS = 4
TOKENS = 512


@triton.jit
def convolve_kernel(
    x,
    weight,
    bias,
    before,
    after,
    out,
    dim,
    tokens,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    known = channel < dim
    row = channel.to(tl.int64)[:, None] * tokens
    total = tl.zeros([CHANNELS, TOKENS], tl.float32)
    total += tl.load(bias + channel, mask=known, other=0.0).to(tl.float32)[:, None]
    for tap in tl.static_range(WIDTH):
        # column of [state | x] that this tap meets
        column = token + tap - (WIDTH - 1)
        fresh = known[:, None] & ((column >= 0) & (column < tokens))[None, :]
        kept = known[:, None] & (column < 0)[None, :]
        values = tl.load(x + row + column[None, :], mask=fresh, other=0.0).to(tl.float32)
        old = before + channel[:, None] * (WIDTH - 1) + (column + WIDTH - 1)[None, :]
        values += tl.load(old, mask=kept, other=0.0).to(tl.float32)
        factor = tl.load(weight + channel * WIDTH + tap, mask=known, other=0.0).to(tl.float32)
        total += values * factor[:, None]
    result = total * tl.sigmoid(total)
    inside = known[:, None] & (token < tokens)[None, :]
    tl.store(out + row + token[None, :], result.to(out.dtype.element_ty), mask=inside)
    if tl.program_id(0) == 0:
        for place in tl.static_range(WIDTH - 1):
            end = tokens + place - (WIDTH - 1)
            new = tl.load(x + channel.to(tl.int64) * tokens + end, mask=known & (end >= 0), other=0)
            at = before + channel * (WIDTH - 1) + tokens + place
            last = tl.where(end >= 0, new, tl.load(at, mask=known & (end < 0), other=0))
            tl.store(after + channel * (WIDTH - 1) + place, last, mask=known)


def run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, conv_state: torch.Tensor
) -> torch.Tensor:
    """[dim, tokens]; `conv_state` becomes the last columns, in place."""
    dim, tokens = x.shape
    out = torch.empty_like(x)
    columns = min(TOKENS, max(16, triton.next_power_of_2(tokens)))
    channels = CHANNELS * TOKENS // columns
    convolve_kernel[(triton.cdiv(tokens, columns), triton.cdiv(dim, channels))](
        x,
        weight,
        bias,
        conv_state.clone(),
        conv_state,
        out,
        dim,
        tokens,
        WIDTH=weight.shape[1],
        CHANNELS=channels,
        TOKENS=columns,
        num_warps=4,
    )
    return out
