"""Row-wise kernels: norms with all that is fused around them, and quantization.

A program takes as many rows as make about two thousand values, each row whole in registers. A row
and its weights are asked for at once: what is loaded after the sum is waited for a second time.
"""

from typing import Any

import torch
import triton
import triton.language as tl

LEAST_AMAX = 1e-12
FEW_REGISTERS = 64
"""Per thread, where nothing is fused: with more, a quarter fewer rows are in flight."""


@triton.jit
def norm_kernel(
    x,
    residual,
    weight,
    bias,
    gate,
    out,
    total,
    scales,
    rows,
    width,
    divisor,
    eps,
    ADD: tl.constexpr,
    CENTER: tl.constexpr,
    WEIGHT: tl.constexpr,
    GATE: tl.constexpr,
    QUANTIZE: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    at = row.to(tl.int64)[:, None] * width + column[None, :]
    values = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if WEIGHT and not CENTER:
        weights = tl.load(
            weight + column, mask=column < width, other=0.0, eviction_policy="evict_last"
        )
    if GATE:
        gates = tl.load(gate + at, mask=inside, other=0.0)
    if ADD:
        values += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        rounded = values.to(x.dtype.element_ty)
        tl.store(total + at, rounded, mask=inside)
        values = rounded.to(tl.float32)
    if CENTER:
        mean = tl.sum(values, 1) / width
        values = tl.where(inside, values - mean[:, None], 0.0)
    squares = tl.sum(values * values, 1) / divisor
    values *= tl.rsqrt(squares + eps)[:, None]
    if CENTER:
        values *= tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
        values += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    elif WEIGHT:
        values *= weights.to(tl.float32)[None, :]
    if GATE:
        opened = gates.to(tl.float32)
        values *= opened * tl.sigmoid(opened)
    if QUANTIZE:
        amax = tl.maximum(tl.max(tl.abs(values), 1), 1e-12)
        scale = amax / LIMIT
        tl.store(scales + row, scale, mask=row < rows)
        values = tl.minimum(tl.maximum(values / scale[:, None], -LIMIT), LIMIT)
    tl.store(out + at, values.to(out.dtype.element_ty), mask=inside)


@triton.jit
def quantize_kernel(
    x,
    out,
    scales,
    rows,
    width,
    least,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    at = row.to(tl.int64)[:, None] * width + column[None, :]
    values = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(values), 1), least) / LIMIT
    tl.store(scales + row, scale, mask=row < rows)
    values = tl.minimum(tl.maximum(values / scale[:, None], -LIMIT), LIMIT)
    tl.store(out + at, values.to(out.dtype.element_ty), mask=inside)


def shape_of(rows: int, width: int) -> tuple[tuple[int], dict[str, Any]]:
    """Grid and sizes: about 2048 values per program."""
    wide = triton.next_power_of_2(width)
    tall = max(1, min(2048 // wide, triton.next_power_of_2(rows)))
    warps = max(1, min(16, tall * wide // 1024))
    return (triton.cdiv(rows, tall),), {"ROWS": tall, "WIDTH": wide, "num_warps": warps}


def norm(
    x: torch.Tensor,
    eps: float,
    *,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    total: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    unit: bool = False,
) -> torch.Tensor:
    """Rows of x normalized into `out`, a fresh tensor unless one is given.

    With `residual`, of the sum, which goes to `total`; with `bias`, centered; with `scales`, the
    result is fp8; `unit` divides by the norm in place of the RMS.
    """
    rows, width = x.shape
    out = torch.empty_like(x) if out is None else out
    grid, sizes = shape_of(rows, width)
    if residual is None and bias is None and gate is None and scales is None:
        sizes["maxnreg"] = FEW_REGISTERS
    norm_kernel[grid](
        x,
        x if residual is None else residual,
        x if weight is None else weight,
        x if bias is None else bias,
        x if gate is None else gate,
        out,
        x if total is None else total,
        x if scales is None else scales,
        rows,
        width,
        1.0 if unit else float(width),
        eps,
        ADD=residual is not None,
        CENTER=bias is not None,
        WEIGHT=weight is not None,
        GATE=gate is not None,
        QUANTIZE=scales is not None,
        LIMIT=448.0,
        **sizes,
    )
    return out


def quantize(
    x: torch.Tensor, width: int, fp8: str, least: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes like x, and one scale per `width` values."""
    require_e4m3fn(fp8)
    rows = x.numel() // width
    out = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scales = torch.empty(rows, dtype=torch.float32, device=x.device)
    grid, sizes = shape_of(rows, width)
    quantize_kernel[grid](x, out, scales, rows, width, least, LIMIT=448.0, **sizes)
    return out, scales


def require_e4m3fn(fp8: str) -> None:
    """Refuse the encoding of other vendors."""
    if fp8 != "e4m3fn":
        raise NotImplementedError("e4m3fn only")
