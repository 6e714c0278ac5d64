"""Token slots sorted by expert, each expert padded to a multiple of the block size.

    bytes    ids in; N sorted slots, N/bs block experts and N itself out (int32)

`padded_slots` is N = Σ ceil(c_e / bs) bs. Without it the bound takes the least that routing allows:
k experts are used at least, and T k slots must fit. Integer work only.
Published: the same, with the N of one random draw.

Solutions: run(topk_ids [T, k] int32, num_experts, block_size) -> sorted_token_ids [C],
expert_ids [C/bs], num_tokens_post_pad [1], all int32, C = min(T k + E (bs - 1), T k bs) rounded up
to a block. Padding is T k; what lies behind N is free. Tie rule: slots of one expert in any order.
E is 128 unless the axis `experts` says otherwise.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, Published, blocks
from solscope.operators.suite_axes import SuiteSizes, renamed
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.draws import another, number_of_experts, routes
from solscope.operators.tasks.judge import exactly
from solscope.operators.tensors import UnclearError

if TYPE_CHECKING:
    import torch


def _fewest_slots(axes: Axes) -> int:
    slots = axes["tokens"] * axes["top_k"]
    least = max(axes["top_k"] if slots else 0, blocks(slots, axes["block_size"]))
    return int(least * axes["block_size"])


@cost_model("tokens top_k block_size", optional="experts padded_slots")
def cost(axes: Axes) -> Cost:
    """Ids once, each output once."""
    size = axes["block_size"]
    padded = axes.get("padded_slots", _fewest_slots(axes))
    return Cost(
        read_bytes={"index": 4 * axes["tokens"] * axes["top_k"]},
        write_bytes={"index": 4 * (padded + padded // size + 1)},
    )


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """Sizes, and the padding that the published routing drew, from the bytes written."""
    axes = renamed("tokens=token_count top_k block_size")(shape)
    size = axes["block_size"]
    return {**axes, "padded_slots": (shape.Q_write // 4 - 1) * size // (size + 1)}


@in_suite("atrex_019", suite_axes)
def published(axes: Axes) -> Published:
    """As published, for the draw that gave `padded_slots`."""
    padded = axes["padded_slots"]
    return Published(
        flops={},
        read_bytes=4 * axes["tokens"] * axes["top_k"],
        write_bytes=4 * (padded + padded // axes["block_size"] + 1),
    )


BLOCK_SIZES = (16, 32, 64, 128)
"""Rows of the tiles that vLLM and SGLang take."""


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Distinct experts per token, with popular and empty ones; `varied`: of another model."""
    generator = draw.generator()
    top_k, size = axes["top_k"], axes["block_size"]
    experts = number_of_experts(generator, axes.get("experts", 128), top_k, draw.variant)
    if draw.variant == "varied":
        size = another(generator, BLOCK_SIZES, size)
    return {
        "topk_ids": routes(generator, axes["tokens"], experts, top_k, draw.variant),
        "num_experts": experts,
        "block_size": size,
    }


def capacity(slots: int, experts: int, block_size: int) -> int:
    """Length of the output: enough blocks for any routing."""
    most = min(slots + experts * (block_size - 1), slots * block_size)
    return blocks(most, block_size) * block_size


def reference(topk_ids: torch.Tensor, num_experts: int, block_size: int) -> Outputs:
    """Expert after expert."""
    import torch

    flat, device = topk_ids.reshape(-1).long(), topk_ids.device
    slots = flat.numel()
    length = capacity(slots, num_experts, block_size)
    ids = torch.full((length,), slots, dtype=torch.int32, device=device)
    experts = torch.full((length // block_size,), -1, dtype=torch.int32, device=device)
    counts = torch.bincount(flat, minlength=num_experts).tolist()
    by_expert = torch.split(torch.sort(flat, stable=True).indices, counts)
    start = 0
    for expert, members in enumerate(by_expert):
        end = start + blocks(len(members), block_size) * block_size
        ids[start : start + len(members)] = members.to(torch.int32)
        experts[start // block_size : end // block_size] = expert
        start = end
    return {
        "sorted_token_ids": ids,
        "expert_ids": experts,
        "num_tokens_post_pad": torch.tensor([start], dtype=torch.int32, device=device),
    }


def _filled(inputs: Mapping[str, Any]) -> tuple[torch.Tensor, int]:
    """Padded slots of each expert, and of all."""
    import torch

    counts = torch.bincount(inputs["topk_ids"].reshape(-1).long(), minlength=inputs["num_experts"])
    padded = (counts + inputs["block_size"] - 1) // inputs["block_size"] * inputs["block_size"]
    return padded, int(padded.sum())


def compare_slots(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """The slots of each expert in any order, its padding with them; what lies behind is free."""
    import torch

    padded, filled = _filled(inputs)
    expert = torch.repeat_interleave(torch.arange(padded.numel(), device=padded.device), padded)
    span = inputs["topk_ids"].numel() + 1
    outside = ((got[:filled] < 0) | (got[:filled] >= span)).any()
    if bool(outside):
        return Judgement(False, float(span), reason=f"a slot is not in 0..{span - 1}")
    keys = [(expert * span + side[:filled].long()).sort().values for side in (got, wanted)]
    return exactly(*keys)


def compare_experts(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """Equal in the blocks that are filled; what lies behind is free."""
    used = _filled(inputs)[1] // inputs["block_size"]
    return exactly(got[:used], wanted[:used])


def realized(axes: Axes, inputs: Inputs) -> Axes:
    """With the padded slots of this routing."""
    return {**axes, "padded_slots": _filled(inputs)[1]}


_INTEGERS = Tolerance("exact", why="integers")

OUTPUTS = {
    "sorted_token_ids": Output("int32", _INTEGERS, compare_slots),
    "expert_ids": Output("int32", _INTEGERS, compare_experts),
    "num_tokens_post_pad": Output("int32", _INTEGERS),
}
TASK = Task(
    inputs, reference, OUTPUTS, realized=realized, unplanned=("topk_ids",), vary=("tokens",)
)


def _expert_blocks(call: Recorded) -> OperatorAxes:
    ids, size = call.tensor(0), call.scalar(2)
    if not size.isdigit() or not 0 < int(size) < 1 << 20:
        raise UnclearError("the size of a block is not recorded")
    tokens = math.prod(ids.shape[:-1])
    axes = {"tokens": tokens, "top_k": ids.shape[-1], "block_size": int(size)}
    return "moe_align_block_size", axes


RECORDED: dict[str, CallRule] = {"_moe_C::moe_align_block_size": _expert_blocks}

TITLE = "Token slots sorted by expert, in padded blocks"
OPERATOR = Operator("moe_align_block_size", TITLE, "moe", cost, published, TASK, recorded=RECORDED)
