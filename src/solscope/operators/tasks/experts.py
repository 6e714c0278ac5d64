"""The experts of an MoE layer: routing as models have it, and the arithmetic of the references."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from solscope.operators.cost import Axes, blocks
from solscope.operators.task import Inputs, Outputs, Task, Variant
from solscope.operators.tasks.draws import routes, row_scales

if TYPE_CHECKING:
    import torch

_ROWS = 1 << 13
"""Tokens of one expert worked on at a time."""


def draw_routing(
    generator: torch.Generator, axes: Axes, variant: Variant
) -> tuple[torch.Tensor, torch.Tensor]:
    """Routing weights, fp32 [T, k], and experts, int32 [T, k]: distinct in a row, skewed over all.

    With `active_experts` in the axes exactly so many experts get a token, so that the bound is that
    of these inputs. `ties` gives equal weights; `empty` leaves many experts without a token.
    """
    import torch

    tokens, experts, top_k = axes["tokens"], axes["experts"], axes["top_k"]
    device, active = generator.device, axes.get("active_experts")
    among = experts if active is None else max(top_k, min(int(active), tokens * top_k))
    ids = routes(generator, tokens, among, top_k, variant).long()
    if active is not None and variant != "empty":
        # Each active expert once, in as few tokens as can be; a row has no expert twice, as
        # `among` is at least top_k.
        each = torch.randperm(among, generator=generator, device=device)
        count = blocks(among, top_k)
        rows = torch.randperm(tokens, generator=generator, device=device)[:count]
        ids[rows] = torch.cat([each, each])[: count * top_k].view(count, top_k)
    chosen = torch.randperm(experts, generator=generator, device=device)[:among]
    logits = torch.randn(tokens, top_k, generator=generator, device=device)
    weights = torch.zeros_like(logits) if variant == "ties" else logits.sort(-1, True).values
    return weights.softmax(-1), chosen[ids].to(torch.int32)


def token_scales(generator: torch.Generator, tokens: int, variant: Variant) -> torch.Tensor:
    """A scale per token, fp32 [T, 1]: near 1, as behind a norm; `extreme` reaches far below."""
    if variant == "extreme":
        scale = row_scales(generator, tokens, "typical", spread=1.5).clamp_max(1.5)
        scale[:1] = 1.0  # one token at least is not small
        return scale
    return row_scales(generator, tokens, "typical", spread=0.2)


def realized(axes: Axes, inputs: Inputs) -> Axes:
    """The axes with the number of experts that got a token."""
    import torch

    ids = inputs["topk_ids"]
    there = (ids >= 0) & (ids < axes["experts"])
    return {**axes, "active_experts": len(torch.unique(ids[there]))}


def routed(task: Task) -> Task:
    """The task of a layer of experts, from that of its tokens as independent rows.

    Routes are computed anew in every layer, and the experts that they touch decide the bound.
    """
    return replace(task, realized=realized, unplanned=("topk_ids",))


def mix_experts(
    inputs: Inputs,
    x: torch.Tensor,
    gate_up: Callable[[int], torch.Tensor],
    down: Callable[[int], torch.Tensor],
) -> Outputs:
    """Σ_j p_tj W2[e] (silu(W1g[e] x_t) * (W1u[e] x_t)) in fp64, expert by expert; fp32 [T, width].

    `gate_up(e)` [2 I, H] with the gate first and `down(e)` [H, I] are the weights in fp64; x is
    widened some rows at a time. An expert outside of what exists counts for nothing. Of `inputs`
    it takes the routes, their weights and the shape [E, H, I] of `w2`.
    """
    import torch

    ids, weights = inputs["topk_ids"], inputs["topk_weights"]
    experts, width = inputs["w2"].shape[:2]
    flat, top_k = ids.long().flatten(), ids.shape[1]
    flat = torch.where((flat >= 0) & (flat < experts), flat, experts)  # those come last
    ordered, order = flat.sort(stable=True)
    counts = torch.bincount(ordered, minlength=experts)[:experts]
    touched = counts.nonzero()[:, 0]
    out = torch.zeros(x.shape[0], width, dtype=torch.float64, device=x.device)
    start = 0
    for expert, count in zip(touched.tolist(), counts[touched].tolist(), strict=True):
        first, second = gate_up(expert), down(expert)
        for slots in torch.split(order[start : start + count], _ROWS):
            tokens = slots // top_k
            gate, up = (x[tokens].double() @ first.T).chunk(2, -1)
            output = (torch.nn.functional.silu(gate) * up) @ second.T
            # A token has an expert once, so that no two rows of this sum meet.
            out[tokens] += output * weights.flatten()[slots, None].double()
        start += count
    return {"out": out.float()}
