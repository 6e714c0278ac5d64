"""Softmax attention in fp64, in slices: the arithmetic that the attention references share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.task import Tolerance

if TYPE_CHECKING:
    import torch

_SCORES = 1 << 26
"""Scores held at a time: 512 MiB in fp64."""

FLASH = Tolerance(
    kind="close",
    atol=0.015,
    rtol=0.01,
    rms=3.5e-3,
    row_rms=1e-2,
    why="flash attention in 16 bits: scores and sums in fp32, weights and result rounded to bf16. "
    "So emulated, the relative RMS error is 1.8e-3 and that of the worst row 4e-3; "
    "8-bit weights give 8e-3",
)
"""What attention with 16-bit inputs must reach."""


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    visible: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q k) v for a batch: q [b, r, Hq, D], k [b, s, Hk, D], v [b, s, Hk, Dv].

    Query head h uses key head h // (Hq / Hk). Row r sees the first `visible[b, r]` keys, all
    without it; a row that sees none is zero. Result fp32 [b, r, Hq, Dv].
    """
    import torch

    batch, rows, heads, _ = q.shape
    keys, key_heads = k.shape[1], k.shape[2]
    out = torch.zeros(batch, rows, heads, v.shape[-1], device=q.device)
    if not keys or not rows:
        return out
    grouped = torch.unflatten(q, 2, (key_heads, heads // key_heads))
    together = max(1, _SCORES // (heads * rows * keys))
    step = max(1, _SCORES // (heads * keys))
    position = torch.arange(keys, device=q.device)
    for first in range(0, batch, together):
        some = slice(first, first + together)
        wide_k, wide_v = k[some].double(), v[some].double()
        for start in range(0, rows, step):
            queried = slice(start, start + step)
            scores = torch.einsum("brhgd,bshd->bhgrs", grouped[some, queried].double(), wide_k)
            scores *= scale
            if visible is not None:
                seen = position < visible[some, queried, None]
                scores.masked_fill_(~seen[:, None, None], -torch.inf)
            weights = scores.softmax(-1).nan_to_num_(0.0)
            sums = torch.einsum("bhgrs,bshd->brhgd", weights, wide_v)
            out[some, queried] = sums.flatten(2, 3).float()
    return out
