"""Depthwise causal convolution with SiLU: tiles of channels and tokens, taps from shifted loads."""

import torch
import triton
import triton.language as tl

CHANNELS = 4
TOKENS = 512
FEW = 64
"""Values per program where a few tokens leave little work for each."""


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
    PLACES: tl.constexpr,
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
        place = tl.arange(0, PLACES)
        stored = known[:, None] & (place < WIDTH - 1)[None, :]
        end = (tokens + place - (WIDTH - 1))[None, :]
        new = tl.load(x + row + end, mask=stored & (end >= 0), other=0)
        state = channel[:, None] * (WIDTH - 1) + place[None, :]
        last = tl.load(before + state + tokens, mask=stored & (end < 0), other=0)
        # Where `before` is `after`, all threads have read it now.
        tl.debug_barrier()
        tl.store(after + state, tl.where(end >= 0, new, last), mask=stored)


def run(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, conv_state: torch.Tensor
) -> torch.Tensor:
    """[dim, tokens]; `conv_state` becomes the last columns, in place."""
    dim, tokens = x.shape
    out = torch.empty_like(x)
    columns = min(TOKENS, triton.next_power_of_2(tokens))
    blocks = triton.cdiv(tokens, columns)
    channels = CHANNELS * TOKENS // columns if blocks > 1 else max(1, FEW // columns)
    convolve_kernel[(blocks, triton.cdiv(dim, channels))](
        x,
        weight,
        bias,
        # One program reads the state of its channels and then writes it.
        conv_state.clone() if blocks > 1 else conv_state,
        conv_state,
        out,
        dim,
        tokens,
        WIDTH=weight.shape[1],
        CHANNELS=channels,
        TOKENS=columns,
        PLACES=triton.next_power_of_2(weight.shape[1] - 1),
        num_warps=max(1, min(4, channels * columns // 32)),
    )
    return out
