"""8-bit floats of the e4m3 kind: NVIDIA and gfx95x have `e4m3fn`, gfx942 has `e4m3fnuz`.

e4m3fn reaches 448, e4m3fnuz 240 with its bias one higher, so equal bytes are different numbers.
torch's cast does not saturate: values are clamped first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MAX = {"e4m3fn": 448.0, "e4m3fnuz": 240.0}
"""Largest finite number by encoding."""


def fp8_dtype(fp8: str) -> torch.dtype:
    """torch's dtype of an encoding."""
    import torch

    return {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[fp8]


def encode(values: torch.Tensor, fp8: str) -> torch.Tensor:
    """Values rounded to the nearest 8-bit float, those beyond the range to the largest."""
    limit = MAX[fp8]
    return values.float().clamp(-limit, limit).to(fp8_dtype(fp8))


def quantize(
    values: torch.Tensor, fp8: str, *, least_amax: float = 0.0, least_scale: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales over the last dimension: scale = max|x| / M, code = x / scale.

    One scale per row of the last dimension, which is kept with size 1. `least_amax` and
    `least_scale` are the floors of the deployed kernels, which keep rows of zeros finite.
    """
    amax = values.abs().amax(-1, keepdim=True).float().clamp_min(least_amax)
    scale = (amax / MAX[fp8]).clamp_min(least_scale)
    return encode(values.float() / scale, fp8), scale


def quantize_blocks(
    values: torch.Tensor, block: tuple[int, int], fp8: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of [..., n, k] and one scale per block by its amax, ragged blocks at the edges."""
    import torch

    rows, columns = values.shape[-2:]
    tall, wide = -(-rows // block[0]), -(-columns // block[1])
    padding = (0, wide * block[1] - columns, 0, tall * block[0] - rows)
    padded = torch.nn.functional.pad(values.float(), padding)
    tiles = padded.reshape(*values.shape[:-2], tall, block[0], wide, block[1])
    scale = tiles.abs().amax((-3, -1)).clamp_min(1e-12) / MAX[fp8]
    codes = encode(tiles / scale[..., :, None, :, None], fp8).reshape(padded.shape)
    return codes[..., :rows, :columns].contiguous(), scale


def decode_blocks(
    codes: torch.Tensor, scale: torch.Tensor, block: tuple[int, int], dtype: torch.dtype
) -> torch.Tensor:
    """The values encoded by codes and block scales."""
    rows, columns = codes.shape[-2:]
    tall = scale.repeat_interleave(block[0], -2)[..., :rows, :]
    return codes.to(dtype) * tall.repeat_interleave(block[1], -1)[..., :columns].to(dtype)
