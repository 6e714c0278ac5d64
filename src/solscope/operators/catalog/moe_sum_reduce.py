"""The sum of the expert outputs of each token: out_t = f Σ_j x_tj.

    vector   T k H                         additions and the factor
    bytes    x [T, k, H] in, out [T, H]

Published: the same.

In: expert_outputs [T, k, H], each already multiplied by its routing weight, routed_scaling_factor
(f). Out: out [T, H].
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, Published, element
from solscope.operators.task import Draw, Inputs, Output, Outputs, Tolerance
from solscope.operators.tasks.draws import normal, torch_dtype
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


@cost_model("tokens top_k hidden", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each value once."""
    tokens, top_k, hidden, size = axes["tokens"], axes["top_k"], axes["hidden"], element(axes)
    return Cost(
        flops={"vector.fp32": tokens * top_k * hidden},
        read_bytes={"activations": size * tokens * top_k * hidden},
        write_bytes={"activations": size * tokens * hidden},
    )


@in_suite("atrex_021", "tokens=token_count top_k hidden=hidden_size")
def published(axes: Axes) -> Published:
    """As published."""
    tokens, top_k, hidden = axes["tokens"], axes["top_k"], axes["hidden"]
    return Published(
        flops={"bf16": tokens * top_k * hidden},
        read_bytes=2 * tokens * top_k * hidden,
        write_bytes=2 * tokens * hidden,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Expert outputs weighted as a router does; `extreme` adds large pairs that cancel.

    The factor is 1, as in most models, and 2.5 (DeepSeek-V3) when extreme.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, top_k, hidden = axes["tokens"], axes["top_k"], axes["hidden"]
    values = normal(generator, tokens, top_k, hidden, dtype=dtype, std=2.0)
    logits = normal(generator, tokens, top_k, dtype=torch.float32)
    weights = torch.ones_like(logits) if draw.variant == "ties" else top_k * logits.softmax(-1)
    values *= (weights / top_k**0.5)[..., None].to(dtype)
    factor = 1.0
    if draw.variant == "extreme":
        factor = 2.5
        if top_k >= 2:
            values[:, 0] += 256
            values[:, 1] -= 256
    return {"expert_outputs": values, "routed_scaling_factor": factor}


def reference(expert_outputs: torch.Tensor, routed_scaling_factor: float) -> Outputs:
    """The sum in fp64."""

    def rows(values: torch.Tensor) -> Outputs:
        return {"out": (routed_scaling_factor * values.double().sum(1)).float()}

    return by_rows(rows, expert_outputs)


_WHY = "the sum in fp32 and one rounding to bf16 (1.7e-3); rounding after every addition gives 3e-3"
_TOLERANCE = Tolerance("close", atol=3e-4, rtol=2**-8 + 2**-14, rms=2e-3, row_rms=2.5e-3, why=_WHY)
OUTPUTS = {"out": Output("expert_outputs", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="expert_outputs", vary=("tokens",))


def _expert_sum(call: Recorded) -> OperatorAxes:
    x = call.tensor(0)
    axes = dict(zip(("tokens", "top_k", "hidden"), x.shape, strict=True))
    return "moe_sum_reduce", {**axes, "dtype": x.dtype}


RECORDED: dict[str, CallRule] = {"_moe_C::moe_sum": _expert_sum}

TITLE = "Sum of expert outputs"
OPERATOR = Operator("moe_sum_reduce", TITLE, "moe", cost, published, TASK, recorded=RECORDED)
