"""Token slots sorted by expert, with the count and the offset of each expert.

    bytes    ids in; T k sorted slots, E counts, E + 1 offsets out (int32)

Integer work only. Published: the same.

Solutions: run(topk_ids [T, k] int32, num_experts) -> sorted_token_ids [T k], expert_token_counts
[E], cumsum [E + 1], all int32. Tie rule: slots of one expert in any order.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.draws import number_of_experts, routes
from solscope.operators.tasks.judge import exactly

if TYPE_CHECKING:
    import torch


@cost_model("tokens experts top_k")
def cost(axes: Axes) -> Cost:
    """Ids once, each output once."""
    slots, experts = axes["tokens"] * axes["top_k"], axes["experts"]
    return Cost(
        read_bytes={"index": 4 * slots},
        write_bytes={"index": 4 * slots + 4 * experts + 4 * (experts + 1)},
    )


@in_suite("atrex_020", "tokens=token_count experts=num_experts top_k")
def published(axes: Axes) -> Published:
    """As published."""
    slots, experts = axes["tokens"] * axes["top_k"], axes["experts"]
    return Published(
        flops={},
        read_bytes=4 * slots,
        write_bytes=4 * slots + 4 * experts + 4 * (experts + 1),
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Distinct experts per token, with popular and empty ones; `varied`: of another model."""
    generator, top_k = draw.generator(), axes["top_k"]
    experts = number_of_experts(generator, axes["experts"], top_k, draw.variant)
    ids = routes(generator, axes["tokens"], experts, top_k, draw.variant)
    return {"topk_ids": ids, "num_experts": experts}


def reference(topk_ids: torch.Tensor, num_experts: int) -> Outputs:
    """By a stable sort."""
    import torch

    flat = topk_ids.reshape(-1).long()
    counts = torch.bincount(flat, minlength=num_experts)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return {
        "sorted_token_ids": torch.sort(flat, stable=True).indices.to(torch.int32),
        "expert_token_counts": counts.to(torch.int32),
        "cumsum": offsets.to(torch.int32),
    }


def compare_slots(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """The slots of each expert in any order."""
    flat = inputs["topk_ids"].reshape(-1).long()
    if bool(((got < 0) | (got >= flat.numel())).any()):
        return Judgement(
            False, float(flat.numel()), reason=f"a slot is not in 0..{flat.numel() - 1}"
        )
    expert = flat[wanted.long()]
    keys = [(expert * flat.numel() + side.long()).sort().values for side in (got, wanted)]
    return exactly(*keys)


_INTEGERS = Tolerance("exact", why="integers")

OUTPUTS = {
    "sorted_token_ids": Output("int32", _INTEGERS, compare_slots),
    "expert_token_counts": Output("int32", _INTEGERS),
    "cumsum": Output("int32", _INTEGERS),
}
TASK = Task(inputs, reference, OUTPUTS, unplanned=("topk_ids",), vary=("tokens",))

TITLE = "Token slots sorted by expert"
OPERATOR = Operator("moe_count_and_sort", TITLE, "moe", cost, published, TASK)
