"""Depthwise causal convolution with SiLU: the window of a thread lies in its registers.

Long rows are read in aligned groups of 8 values, wherever a row begins in memory, so that rows of
odd length are moved in 16 bytes at a time too. The few tokens before the first whole group of a row
(which need the kept state) and behind its last are done one by one.
"""

import torch
import triton
import triton.language as tl

GROUP = 8
"""Values of 16 bytes."""
WIDTH_OF_LONG = 4
"""Taps of the kernel for long rows: three values before a group lie in the one before it."""
EDGE = 16
"""Places for the tokens before the first group: at most 3 + 7."""
GROUPS = 256
"""Groups per program."""
LONG = 64
"""Tokens from which rows are read in groups."""
FEW = 64
"""Values per program where a few tokens leave little work for each."""


SILU = tl.constexpr("""{
    .reg .f32 t;
    mul.ftz.f32 t, $1, 0fBFB8AA3B;
    ex2.approx.ftz.f32 t, t;
    add.ftz.f32 t, t, 0f3F800000;
    rcp.approx.ftz.f32 t, t;
    mul.ftz.f32 $0, $1, t;
}""")
"""x / (1 + 2^(-x log2 e)) in five instructions; `tl.exp` and the quotient take eleven."""


@triton.jit
def silu(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(SILU, "=f,f", [x], tl.float32, True, 1)
    return x / (1.0 + tl.exp(-x))


@triton.jit
def eight(x):
    """The columns of [rows, groups, 8]; in registers where one thread holds a group."""
    rows: tl.constexpr = x.shape[0]
    groups: tl.constexpr = x.shape[1]
    even, odd = tl.split(tl.reshape(x, [rows, groups, 4, 2]))
    x04, x26 = tl.split(tl.reshape(even, [rows, groups, 2, 2]))
    x15, x37 = tl.split(tl.reshape(odd, [rows, groups, 2, 2]))
    x0, x4 = tl.split(x04)
    x2, x6 = tl.split(x26)
    x1, x5 = tl.split(x15)
    x3, x7 = tl.split(x37)
    return x0, x1, x2, x3, x4, x5, x6, x7


@triton.jit
def together(x0, x1, x2, x3, x4, x5, x6, x7):
    """The inverse of `eight`."""
    rows: tl.constexpr = x0.shape[0]
    groups: tl.constexpr = x0.shape[1]
    even = tl.reshape(tl.join(tl.join(x0, x4), tl.join(x2, x6)), [rows, groups, 4])
    odd = tl.reshape(tl.join(tl.join(x1, x5), tl.join(x3, x7)), [rows, groups, 4])
    return tl.reshape(tl.join(even, odd), [rows, groups, 8])


@triton.jit
def tap(a, b, c, d, w0, w1, w2, w3, shift, kind: tl.constexpr, FAST: tl.constexpr):
    return silu(d * w3 + (c * w2 + (b * w1 + (a * w0 + shift))), FAST).to(kind)


@triton.jit
def edge(x, weight, bias, state, out, channel, known, row, token, wanted, FAST: tl.constexpr):
    """Tokens one by one, the first from the kept state; all four taps."""
    total = tl.load(bias + channel, mask=known, other=0.0).to(tl.float32)[:, None]
    inside = known[:, None] & wanted
    for place in tl.static_range(4):
        column = token + (place - 3)
        fresh = inside & (column >= 0)
        value = tl.load(x + row + column, mask=fresh, other=0.0).to(tl.float32)
        old = state + channel[:, None] * 3 + (column + 3)
        value += tl.load(old, mask=inside & (column < 0), other=0.0).to(tl.float32)
        factor = tl.load(weight + channel * 4 + place, mask=known, other=0.0).to(tl.float32)
        total += value * factor[:, None]
    tl.store(out + row + token, silu(total, FAST).to(out.dtype.element_ty), mask=inside)


@triton.jit
def long_kernel(
    x,
    weight,
    bias,
    state,
    out,
    dim,
    tokens,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    EDGE: tl.constexpr,
    FAST: tl.constexpr,
):
    kind: tl.constexpr = out.dtype.element_ty
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < dim
    start = channel.to(tl.int64) * tokens
    stop = start + tokens
    # Groups of 8 that lie in the row, the three values before each too.
    first = (start + 3 + 7) // 8
    last = stop // 8
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    at = first[:, None] + group[None, :]
    whole = (known[:, None] & (at < last[:, None]))[:, :, None]
    here = (at * 8)[:, :, None]
    now = tl.load(x + here + tl.arange(0, 8)[None, None, :], mask=whole, other=0.0)
    back = tl.load(x + here + tl.arange(0, 4)[None, None, :] - 4, mask=whole, other=0.0)
    w = weight + channel * 4
    w0 = tl.load(w, mask=known, other=0.0).to(tl.float32)[:, None]
    w1 = tl.load(w + 1, mask=known, other=0.0).to(tl.float32)[:, None]
    w2 = tl.load(w + 2, mask=known, other=0.0).to(tl.float32)[:, None]
    w3 = tl.load(w + 3, mask=known, other=0.0).to(tl.float32)[:, None]
    shift = tl.load(bias + channel, mask=known, other=0.0).to(tl.float32)[:, None]
    p57, p68 = tl.split(tl.reshape(back.to(tl.float32), [CHANNELS, GROUPS, 2, 2]))
    _, p6 = tl.split(p57)
    p5, p7 = tl.split(p68)
    x0, x1, x2, x3, x4, x5, x6, x7 = eight(now.to(tl.float32))
    y0 = tap(p5, p6, p7, x0, w0, w1, w2, w3, shift, kind, FAST)
    y1 = tap(p6, p7, x0, x1, w0, w1, w2, w3, shift, kind, FAST)
    y2 = tap(p7, x0, x1, x2, w0, w1, w2, w3, shift, kind, FAST)
    y3 = tap(x0, x1, x2, x3, w0, w1, w2, w3, shift, kind, FAST)
    y4 = tap(x1, x2, x3, x4, w0, w1, w2, w3, shift, kind, FAST)
    y5 = tap(x2, x3, x4, x5, w0, w1, w2, w3, shift, kind, FAST)
    y6 = tap(x3, x4, x5, x6, w0, w1, w2, w3, shift, kind, FAST)
    y7 = tap(x4, x5, x6, x7, w0, w1, w2, w3, shift, kind, FAST)
    result = together(y0, y1, y2, y3, y4, y5, y6, y7)
    tl.store(out + here + tl.arange(0, 8)[None, None, :], result, mask=whole)
    if tl.program_id(0) == 0:
        row = start[:, None]
        place = tl.arange(0, EDGE)[None, :]
        before = (first * 8 - start).to(tl.int32)[:, None]
        behind = (last * 8 - start).to(tl.int32)[:, None]
        # Places 0 to 15 of the row, up to the first group, and 8 behind the last one.
        wanted = (place < before) & (place < tokens)
        edge(x, weight, bias, state, out, channel, known, row, place, wanted, FAST)
        token = tl.maximum(behind, before) + place
        edge(x, weight, bias, state, out, channel, known, row, token, token < tokens, FAST)
        place = tl.arange(0, 4)[None, :]
        kept = known[:, None] & (place < 3)
        new = tl.load(x + row + (tokens - 3) + place, mask=kept, other=0.0)
        # All threads have read the state now.
        tl.debug_barrier()
        tl.store(state + channel[:, None] * 3 + place, new, mask=kept)


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
    width = weight.shape[1]
    if tokens >= LONG and width == WIDTH_OF_LONG:
        groups = min(GROUPS, triton.next_power_of_2(triton.cdiv(tokens, GROUP)))
        channels = max(1, GROUPS // groups)
        grid = (triton.cdiv(tokens, groups * GROUP), triton.cdiv(dim, channels))
        long_kernel[grid](
            x,
            weight,
            bias,
            conv_state,
            out,
            dim,
            tokens,
            CHANNELS=channels,
            GROUPS=groups,
            EDGE=EDGE,
            FAST=x.is_cuda,
            num_warps=4,
        )
        return out
    columns = min(512, triton.next_power_of_2(tokens))
    blocks = triton.cdiv(tokens, columns)
    channels = 4 * 512 // columns if blocks > 1 else max(1, FEW // columns)
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
        WIDTH=width,
        CHANNELS=channels,
        TOKENS=columns,
        PLACES=triton.next_power_of_2(width - 1),
        num_warps=max(1, min(4, channels * columns // 32)),
    )
    return out
