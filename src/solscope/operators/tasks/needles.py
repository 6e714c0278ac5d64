"""Queries that look for something: attention inputs on which a wrong index shows.

Random queries spread their weight evenly over thousands of keys, so that the mean of all values is
nearly right. Here every head of a query has a needle, one key of its sequence that takes about half
of its weight; one in sixteen has the last key it may see, and one in sixteen the first it may not,
which takes as much when a mask leaks. The first key of a sequence is a sink, as in language models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from solscope.operators.task import Variant

if TYPE_CHECKING:
    import torch

SPREAD = 2.0
"""Standard deviation of the logits between a query and a key that has nothing to do with it."""
SINK_LOGIT = 5.0
"""Added to the logits of a sequence's first key."""
_SINK_QUERY = 4.0


def needle_positions(
    generator: torch.Generator, visible: torch.Tensor, keys: torch.Tensor, heads: int
) -> torch.Tensor:
    """Position of each needle, int64 [n, heads]: below `keys` [n], mostly below `visible` [n].

    The first head of a query that sees all keys looks for the last one: in a batch of few queries
    chance would not place a needle there.
    """
    import torch

    seen, shape = visible[:, None], (len(visible), heads)
    kind = torch.randint(16, shape, generator=generator, device=visible.device)
    share = torch.rand(shape, generator=generator, device=visible.device)
    position = (share * seen).long()
    position = torch.where(kind == 0, seen - 1, position)
    position = torch.where(kind == 1, seen, position)
    position[:, 0] = torch.where(visible == keys, keys - 1, position[:, 0])
    return torch.minimum(position, keys[:, None] - 1).clamp_min(0)


def sink(scale: float) -> float:
    """What to add to dimension 0 of a sequence's first key."""
    return SINK_LOGIT / (scale * _SINK_QUERY)


def queries(
    generator: torch.Generator,
    needle: torch.Tensor,
    visible: torch.Tensor,
    *,
    scale: float,
    strength: float,
    variant: Variant,
) -> torch.Tensor:
    """Queries [n, heads, D] that look for the keys `needle`, of the same shape; those are used up.

    `visible` [n] keys are in sight, `scale` multiplies the scores, `strength` is the mean |key|².
    `extreme` makes logits that overflow without a subtracted maximum; `ties` makes all equal.
    """
    import torch

    if variant == "ties":
        return torch.zeros_like(needle)
    q = torch.randn(needle.shape, generator=generator, device=needle.device, dtype=needle.dtype)
    q *= SPREAD / (scale * strength**0.5)
    q[..., 0] += _SINK_QUERY
    # The logit with which a key weighs as much as all others together.
    logit = visible.float().clamp_min(1.0).log() + SPREAD * SPREAD / 2
    factor = logit / (scale * strength)
    q += needle.mul_(factor[:, None, None].to(needle.dtype))
    return q.mul_(8) if variant == "extreme" else q


def value_offsets(
    generator: torch.Generator, shape: Sequence[int], dtype: torch.dtype, variant: Variant
) -> torch.Tensor:
    """What to add to values [..., heads, D]: a mean per head and dimension, an offset per token.

    Around 0 what many small weights add would be next to nothing, and a kernel could leave them
    out. With `ties` the result is a mean over all keys, and all of it comes from this.
    """
    import torch

    *tokens, heads, dim = shape
    mean = torch.randn(
        *([1] * len(tokens)),
        heads,
        dim,
        generator=generator,
        device=generator.device,
        dtype=dtype,
    )
    if variant == "ties":
        return mean
    offset = torch.randn(
        *tokens, heads, 1, generator=generator, device=generator.device, dtype=dtype
    )
    return offset.mul_(0.5) + mean.mul_(0.5)
