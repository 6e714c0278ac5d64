"""What rotary embeddings cost, and how they are judged.

A rotated value x cos - y sin may cancel: its error is that of its head's size, not of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from solscope.operators.cost import Axes, Cost, element
from solscope.operators.task import Judgement, Tolerance
from solscope.operators.tasks.judge import within
from solscope.operators.tasks.tolerances import UNIT, rounded

if TYPE_CHECKING:
    import torch

_WHY = "fp32 inside, one rounding; 2^-20 of the head's largest value where the two products cancel"
_CANCELLED = 2.0**-20


def rotation_cost(
    axes: Axes, index_bytes: float, other_flops: Mapping[str, float] | None = None
) -> Cost:
    """Cost of turning the q and k heads in place: two products and a sum per value."""
    heads = axes["q_heads"] + axes["kv_heads"]
    moved = element(axes) * axes["tokens"] * heads * axes["head_dim"]
    flops = {"vector.fp32": 3 * axes["tokens"] * heads * axes["rotary_dim"]}
    return Cost(
        flops={**flops, **(other_flops or {})},
        read_bytes={"activations": moved, "index": index_bytes},
        write_bytes={"activations": moved},
    )


def rotated(dtype: str) -> Tolerance:
    """The tolerance of rotated values, in units of the head's largest."""
    return rounded(dtype, 1, _WHY, atol=_CANCELLED)


def rotation_judgement(dtype: str, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    """Judge heads [..., R], each in units of its largest value; the error is given in full."""
    import torch

    size = wanted.abs().amax(-1, keepdim=True).double().clamp_min(1e-30)
    small = torch.finfo(got.dtype).smallest_normal * UNIT[dtype]  # half a step between subnormals
    tolerance = rotated(dtype)
    slack = (got.double() - wanted.double()).abs() <= small + _CANCELLED * size
    nearly = torch.where(slack, wanted.double(), got.double())
    judged = within(tolerance, nearly / size, wanted.double() / size)
    error = float((got.double() - wanted.double()).abs().max()) if wanted.numel() else 0.0
    return msgspec.structs.replace(judged, max_error=error)
