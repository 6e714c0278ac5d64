"""The router of an MoE layer: softmax over E logits per token, then the k largest.

    vector   T (5 E - 1)                   softmax; at least one compare per logit
    sfu      T E                           exponentials
    bytes    logits (fp32) in; k weights (fp32) and ids (int32) out

Published: without the compares, the same bytes.

Solutions: run(gating_output [T, E] fp32, top_k) -> topk_weights [T, k] fp32 in descending order,
topk_ids [T, k] int32. The weights are not scaled to a sum of 1. Tie rule: of experts with equal
logits any may be taken, in any order.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, Published
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import another, expert_bias, normal, places
from solscope.operators.tasks.judge import within
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


@cost_model("tokens experts top_k")
def cost(axes: Axes) -> Cost:
    """Each logit once."""
    tokens, experts, top_k = axes["tokens"], axes["experts"], axes["top_k"]
    return Cost(
        flops={"vector.fp32": tokens * (5 * experts - 1), "sfu": tokens * experts},
        read_bytes={"activations": 4 * tokens * experts},
        write_bytes={"activations": 4 * tokens * top_k, "index": 4 * tokens * top_k},
    )


@in_suite("atrex_022", "tokens=token_count experts=num_experts top_k")
def published(axes: Axes) -> Published:
    """As published."""
    tokens, experts = axes["tokens"], axes["experts"]
    return Published(
        flops={"fp32": tokens * (4 * experts - 1)},
        read_bytes=4 * tokens * experts,
        write_bytes=8 * tokens * axes["top_k"],
    )


TOP_KS = (2, 4, 6, 8, 10)
"""Experts of a token in Mixtral, gpt-oss, DeepSeek-V2, DeepSeek-V3 and Qwen3-Next."""


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Router logits with popular experts; `ties` in bf16 with a row of equals and one of -inf.

    One row in eight lies around 95 and one in eight around -95: without a subtracted maximum their
    exponentials overflow, or vanish. `varied` has the k of another model.
    """
    import torch

    generator = draw.generator()
    tokens, experts = axes["tokens"], axes["experts"]
    logits = normal(generator, tokens, experts, dtype=torch.float32, std=2.0)
    logits.add_(expert_bias(generator, experts, draw.variant))
    kind = torch.randint(8, (tokens, 1), generator=generator, device=generator.device)
    if tokens > 1:
        kind[places(generator, 1, tokens)] = 0
    logits += torch.where(kind == 0, 95.0, torch.where(kind == 1, -95.0, 0.0))
    if draw.variant == "ties":
        logits = logits.bfloat16().float()
        banned, *equal = places(generator, min(2, tokens), tokens)
        logits[equal] = 1.5
        logits[banned, places(generator, 1, experts)] = float("-inf")
    if draw.variant == "extreme":
        logits.mul_(10.0)
    top_k = axes["top_k"]
    if draw.variant == "varied":
        top_k = another(generator, [k for k in TOP_KS if k <= experts], top_k)
    return {"gating_output": logits, "top_k": top_k}


def reference(gating_output: torch.Tensor, top_k: int) -> Outputs:
    """Softmax in fp64; a stable sort puts the lower expert first."""
    import torch

    def rowwise(rows: torch.Tensor) -> Outputs:
        ids = torch.sort(rows, dim=-1, descending=True, stable=True).indices[:, :top_k]
        weights = rows.double().softmax(-1).gather(-1, ids)
        return {"topk_weights": weights.float(), "topk_ids": ids.to(torch.int32)}

    return by_rows(rowwise, gating_output)


def compare_ids(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """Each place holds an expert of the right logit, and no expert comes twice in a row."""
    logits = inputs["gating_output"]
    if "rows" in inputs:
        logits = logits[inputs["rows"]]
    experts = logits.shape[-1]
    outside = int(((got < 0) | (got >= experts)).sum())
    if outside:
        return Judgement(False, float(experts), reason=f"{outside} ids are not in 0..{experts - 1}")
    ordered = got.long().sort(-1).values
    twice = int((ordered[:, 1:] == ordered[:, :-1]).any(-1).sum())
    if twice:
        return Judgement(False, float(experts), reason=f"{twice} rows name an expert twice")
    chosen = logits.double().gather(-1, got.long())
    return within(_LOGITS, chosen, logits.double().gather(-1, wanted.long()))


_LOGITS = Tolerance(
    "close",
    atol=1e-5,
    rtol=1e-6,
    why="logits this near have weights that fp32 cannot distinguish; either may come first",
)

_TOPK_WEIGHTS_WHY = "fp32 softmax with a fast exponential: 2^-24 times logits of up to 100"
_TOPK_WEIGHTS = Tolerance("close", atol=1e-12, rtol=2e-5, rms=5e-6, why=_TOPK_WEIGHTS_WHY)
OUTPUTS = {
    "topk_weights": Output("float32", _TOPK_WEIGHTS),
    "topk_ids": Output("int32", _LOGITS, compare_ids),
}
TASK = row_task(inputs, reference, OUTPUTS, rows="gating_output", vary=("tokens",))


def _router(call: Recorded) -> OperatorAxes:
    """Weights and ids out, scores in; scores narrower than fp32 are a sort of as many bytes."""
    weights, scores = call.tensor(0), call.tensor(3)
    (tokens, experts), top_k = scores.shape, weights.shape[-1]
    if scores.dtype == "fp32":
        axes = {"tokens": tokens, "experts": experts, "top_k": top_k}
        return "moe_topk_gating_softmax", axes
    written = {"value_bytes": weights.bytes, "index_bytes": call.tensor(1).bytes}
    return "sort", {"read_bytes": scores.bytes, **written}


RECORDED: dict[str, CallRule] = {"_moe_C::topk_softmax": _router}

TITLE = "MoE router: softmax and top-k"
OPERATOR = Operator(
    "moe_topk_gating_softmax", TITLE, "moe", cost, published, TASK, recorded=RECORDED
)
