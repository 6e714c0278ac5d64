"""How many experts a batch touches: the one number of an MoE call that sizes alone do not give.

A token goes to `top_k` different experts out of `experts`. The weights of every expert that at
least one token goes to must be read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from solscope.operators.base import CostModel, cost_model
from solscope.operators.cost import Axes, Cost

Routed = TypeVar("Routed")


def fewest_experts(axes: Axes) -> int:
    """The routing that touches least: every token takes the same `top_k` experts."""
    return min(axes["experts"], axes["top_k"]) if axes["tokens"] else 0


def expected_experts(axes: Axes) -> float:
    """Mean over uniform routing: an expert is missed by all tokens with (1 - k/E)^T."""
    experts = axes["experts"]
    return float(experts * (1 - (1 - min(1.0, axes["top_k"] / experts)) ** axes["tokens"]))


def published_experts(axes: Axes) -> int:
    """The count behind the published bytes: the expectation, rounded up."""
    slots = axes["tokens"] * axes["top_k"]
    return min(int(axes["experts"]), int(slots), math.ceil(expected_experts(axes)))


def active_experts(axes: Axes) -> float:
    """As recorded in the axes; else the fewest, so that the cost stays a bound."""
    recorded = axes.get("active_experts")
    return float(fewest_experts(axes) if recorded is None else recorded)


def rank_is_hit(axes: Axes) -> float:
    """Chance that a token has an expert on a rank, under uniform routing."""
    experts, top_k = axes["experts"], axes["top_k"]
    elsewhere = experts - experts // axes["ranks"]
    return 1 - math.comb(elsewhere, top_k) / math.comb(experts, top_k)


Copies = tuple[float, float]
"""Ranks that have an expert of a token: other ones, and all of them."""


def fewest_copies(_axes: Axes) -> Copies:
    """All experts of a token may be on its own rank."""
    return 0.0, 1.0


def uniform_copies(axes: Axes) -> Copies:
    """The mean over uniform routing."""
    ranks, hit = axes["ranks"], rank_is_hit(axes)
    return (ranks - 1) * hit, ranks * hit


def expert_costs(
    cost: Callable[[Axes, float], Cost], optional: str
) -> tuple[CostModel, Callable[[Axes], Cost]]:
    """`cost` and `expected` of a layer of experts, by the number of experts that get a token."""
    axes = "tokens hidden intermediate experts top_k"
    return _costs(cost, axes, optional, least=active_experts, uniform=expected_experts)


def exchange_costs(
    cost: Callable[[Axes, Copies], Cost],
) -> tuple[CostModel, Callable[[Axes], Cost]]:
    """`cost` and `expected` of sending tokens to the ranks of their experts, or back."""
    axes = "tokens hidden experts top_k ranks"
    return _costs(cost, axes, "element_bytes", least=fewest_copies, uniform=uniform_copies)


def _costs(
    cost: Callable[[Axes, Routed], Cost],
    axes: str,
    optional: str,
    *,
    least: Callable[[Axes], Routed],
    uniform: Callable[[Axes], Routed],
) -> tuple[CostModel, Callable[[Axes], Cost]]:
    """`cost` and `expected` of an operator: `cost(axes, routed)` takes where the tokens go.

    The bound takes that from `least`, the expectation from `uniform`.
    """
    bound = cost_model(axes, optional)(lambda given: cost(given, least(given)))
    return bound, lambda given: cost(given, uniform(given))
