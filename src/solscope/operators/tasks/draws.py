"""Random inputs that look like production, shared by operators.

Rows of activations have their own scales and some channels are outliers, as measured in LLMs: an
answer that leaves out a reduction or takes a constant scale is then far off. Everything is made on
the device of the generator, without copies in a wider type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from solscope.operators.task import Variant

if TYPE_CHECKING:
    import torch

_Value = TypeVar("_Value", int, float, str)

TORCH_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""torch's name by ours."""
SMALLEST_ROW, LARGEST_ROW = 1e-6, 1e12
"""Scales of rows when extreme. Epsilon decides rows near the one. Of rows near the other, fp32 sums
of squares, with outliers and means fifty times as large, are three decades from overflowing."""
EPSILONS = (1e-6, 1e-5, 1e-12)
"""Those of models: Qwen and DeepSeek, Llama and GPT, BERT and ViT."""
EXPERTS = (60, 64, 128, 160, 256)
"""Of models: Qwen1.5-MoE, DeepSeek-MoE, Qwen3, DeepSeek-V2, DeepSeek-V3."""


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype by our name, e.g. `bf16`."""
    import torch

    dtype = getattr(torch, TORCH_NAMES[name])
    assert isinstance(dtype, torch.dtype)
    return dtype


def normal(
    generator: torch.Generator, *shape: int, dtype: torch.dtype, std: float = 1.0
) -> torch.Tensor:
    """Normal values of mean 0."""
    import torch

    values = torch.randn(*shape, generator=generator, device=generator.device, dtype=dtype)
    return values.mul_(std) if std != 1.0 else values


def row_scales(
    generator: torch.Generator,
    rows: int,
    variant: Variant,
    spread: float = 1.0,
    *,
    smallest: float = SMALLEST_ROW,
    largest: float = LARGEST_ROW,
) -> torch.Tensor:
    """A scale per row, fp32 [rows, 1]: log-normal; when extreme, evenly over all decades."""
    import torch

    if variant == "extreme":
        return spread_scales(generator, rows, smallest, largest)
    return torch.exp(spread * torch.randn(rows, 1, generator=generator, device=generator.device))


def spread_scales(
    generator: torch.Generator, rows: int, smallest: float, largest: float
) -> torch.Tensor:
    """A scale per row, fp32 [rows, 1]: one in each part of the decades between, in random order."""
    import torch

    part = torch.randperm(rows, generator=generator, device=generator.device)
    share = (part + torch.rand(rows, generator=generator, device=generator.device)) / max(1, rows)
    low, high = math.log10(smallest), math.log10(largest)
    return torch.pow(10.0, share * (high - low) + low)[:, None]


def places(generator: torch.Generator, count: int, size: int) -> list[int]:
    """`count` different positions below `size`: where something rare goes."""
    import torch

    order = torch.rand(size, generator=generator, device=generator.device).topk(count)
    return [int(place) for place in order.indices.tolist()]


def activations(
    generator: torch.Generator,
    rows: int,
    width: int,
    dtype: torch.dtype,
    variant: Variant = "typical",
    *,
    outlier: float = 20.0,
    edge_rows: bool = True,
    smallest: float = SMALLEST_ROW,
) -> torch.Tensor:
    """Hidden states [rows, width]: row scales, about 1 % outlier channels.

    With `edge_rows`, of at least four rows one is zero and one a single spike.
    """
    import torch

    values = normal(generator, rows, width, dtype=dtype)
    channels = torch.ones(width, device=generator.device)
    chosen = torch.randint(
        width, (max(1, width // 100),), generator=generator, device=generator.device
    )
    channels[chosen] = outlier
    kind = torch.finfo(dtype)
    largest = kind.max / 4
    scale = row_scales(
        generator,
        rows,
        variant,
        smallest=max(smallest, 2 * kind.smallest_normal),
        largest=min(LARGEST_ROW, largest),
    )
    values.mul_(scale.to(dtype)).mul_(channels.to(dtype))
    if edge_rows and rows >= 4:
        zero, spike = places(generator, 2, rows)
        values[zero] = 0
        values[spike] = 0
        values[spike, places(generator, 1, width)[0]] = 1000.0
    if largest < 1e6:  # fp16: extreme rows with outliers would overflow
        values.nan_to_num_(posinf=largest, neginf=-largest).clamp_(-largest, largest)
    return values


def norm_weight(generator: torch.Generator, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Weights of a norm: around 1, a few of 0 and of 10."""
    import torch

    weight = 1 + 0.2 * torch.randn(width, generator=generator, device=generator.device)
    if width >= 16:
        zero, large = places(generator, 2, width)
        weight[zero] = 0
        weight[large] = 10
    return weight.to(dtype)


def epsilon(generator: torch.Generator, variant: Variant, usual: float) -> float:
    """The epsilon of a norm: the usual one; when varied, one that shows in rows of any size.

    When extreme, rows are small enough to show one of another model.
    """
    if variant == "varied":
        return varied(generator, 1e-3, 1e-1)
    return another(generator, EPSILONS, usual) if variant == "extreme" else usual


def query_scale(generator: torch.Generator, variant: Variant, usual: float) -> float:
    """The factor on queries: the usual one; when varied, 1.3 to 2 times as much or as little.

    Nearer to the usual one, a kernel that has it built in would be within the tolerance.
    """
    if variant != "varied":
        return usual
    factor = varied(generator, 1.3, 2.0)
    return usual * factor if varied(generator, 0.5, 2.0) > 1 else usual / factor


def varied(generator: torch.Generator, low: float, high: float) -> float:
    """A log-uniform number."""
    import torch

    share = float(torch.rand((), generator=generator, device=generator.device))
    return float(low * (high / low) ** share)


def another(generator: torch.Generator, values: Iterable[_Value], usual: _Value) -> _Value:
    """One of the values that is not the usual one; that one where there is no other."""
    import torch

    others = [value for value in values if value != usual] or [usual]
    return others[int(torch.randint(len(others), (), generator=generator, device=generator.device))]


def number_of_experts(generator: torch.Generator, usual: int, top_k: int, variant: Variant) -> int:
    """The usual number of experts; when varied, that of another model."""
    if variant != "varied":
        return usual
    return another(generator, [count for count in EXPERTS if count >= top_k], usual)


def expert_bias(generator: torch.Generator, experts: int, variant: Variant) -> torch.Tensor:
    """Log popularity of each expert, fp32 [experts]: Zipf in random order.

    `empty` makes every second expert unpopular beyond reach.
    """
    import torch

    order = torch.randperm(experts, generator=generator, device=generator.device)
    bias = -0.8 * torch.log1p(order.float())
    if variant == "empty" and experts >= 4:
        bias[order % 2 == 1] -= 60.0
    return bias


def routes(
    generator: torch.Generator, tokens: int, experts: int, top_k: int, variant: Variant = "typical"
) -> torch.Tensor:
    """Experts of each token, int32 [tokens, top_k], distinct in a row and skewed over all.

    `varied` leaves the last four alone: how many there are is not to be seen in the routes.
    """
    import torch

    uniform = torch.rand(tokens, experts, generator=generator, device=generator.device)
    gumbel = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-7)))
    scores = gumbel.add_(expert_bias(generator, experts, variant))
    if variant == "varied":
        scores[:, max(top_k, experts - 4) :] = -torch.inf
    return scores.topk(top_k, dim=-1).indices.to(torch.int32)
