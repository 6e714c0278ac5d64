"""Rotation of the heads of a row, in place."""

import torch
import triton
import triton.language as tl

HEADS = 16


@triton.jit
def rotate_kernel(
    rows,
    cos,
    sin,
    positions,
    row_stride,
    table_row,
    axis_stride,
    heads,
    first_end,
    second_end,
    POSITIONS: tl.constexpr,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    HALF_UP: tl.constexpr,
    HEADS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pair = tl.arange(0, HALF_UP)
    place = token
    if POSITIONS:
        place = tl.load(positions + token).to(tl.int64)
    axis = (pair >= first_end).to(tl.int64) + (pair >= second_end).to(tl.int64)
    entry = place * table_row + axis * axis_stride + pair
    known = pair < HALF
    c = tl.load(cos + entry, mask=known, other=0.0)[None, :]
    s = tl.load(sin + entry, mask=known, other=0.0)[None, :]
    inside = (head < heads)[:, None] & known[None, :]
    at = rows + token * row_stride + head[:, None] * DIM + pair[None, :]
    x = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(at, (x * c - y * s).to(rows.dtype.element_ty), mask=inside)
    tl.store(at + HALF, (y * c + x * s).to(rows.dtype.element_ty), mask=inside)


def rotate(
    rows: torch.Tensor,
    heads: int,
    dim: int,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    half: int,
    table_row: int,
    positions: torch.Tensor | None = None,
    sections: tuple[int, int] | None = None,
    axis_stride: int = 0,
) -> None:
    """The first `heads` heads of each row; sections are where the second and third axis start."""
    first, second = sections if sections is not None else (half, half)
    rotate_kernel[(rows.shape[0], triton.cdiv(heads, HEADS))](
        rows,
        cos,
        sin,
        rows if positions is None else positions,
        rows.stride(0),
        table_row,
        axis_stride,
        heads,
        first,
        second,
        POSITIONS=positions is not None,
        DIM=dim,
        HALF=half,
        HALF_UP=triton.next_power_of_2(half),
        HEADS=HEADS,
        num_warps=4,
    )
