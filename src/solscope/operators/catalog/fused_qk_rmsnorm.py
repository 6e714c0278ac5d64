"""RMS normalization of the query and key heads of a fused qkv row, in place; v stays as it is.

    vector   T (Hq + Hk) (3 D + 1)         as rms_norm, per head
    sfu      T (Hq + Hk)                   reciprocal root
    bytes    q and k in and out, two weights of D

Published: v is copied too, 1.11 to 1.20 times the bytes needed.

Solutions: run(qkv [T, (Hq + 2 Hk) D], q_weight [D], k_weight [D], q_heads, kv_heads, eps), in
place; v is compared bit by bit.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs
from solscope.operators.tasks.draws import (
    activations,
    epsilon,
    norm_weight,
    normal,
    places,
    torch_dtype,
)
from solscope.operators.tasks.judge import both, exactly, within
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens q_heads kv_heads head_dim", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Only the q and k heads move."""
    heads, dim, size = axes["q_heads"] + axes["kv_heads"], axes["head_dim"], element(axes)
    rows = axes["tokens"] * heads
    return Cost(
        flops={"vector.fp32": rows * (3 * dim + 1), "sfu": rows},
        read_bytes={"weights": 2 * size * dim, "activations": size * rows * dim},
        write_bytes={"activations": size * rows * dim},
    )


@in_suite(
    "atrex_010",
    "tokens=num_tokens q_heads=head_num kv_heads=kv_head_num head_dim=size_per_head dtype",
)
def published(axes: Axes) -> Published:
    """As published: the whole qkv row in and out."""
    tokens, dim = axes["tokens"], axes["head_dim"]
    rows = tokens * (axes["q_heads"] + axes["kv_heads"])
    row_bytes = 2 * tokens * (axes["q_heads"] + 2 * axes["kv_heads"]) * dim
    return Published(
        flops={"fp16": rows * (3 * dim + 1)},
        read_bytes=row_bytes + 4 * dim,
        write_bytes=row_bytes,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Projected rows whose heads have different scales."""
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, dim = axes["tokens"], axes["head_dim"]
    heads = axes["q_heads"] + 2 * axes["kv_heads"]
    qkv = activations(generator, tokens * heads, dim, dtype, draw.variant, edge_rows=False)
    if tokens * heads >= 4:
        zero, short = places(generator, 2, tokens * heads)
        qkv[zero] = 0
        qkv[short, places(generator, 1, dim)[0] :] = 0
    return {
        "qkv": qkv.view(tokens, heads * dim),
        "q_weight": torch.ones(dim, dtype=dtype, device=generator.device)
        + normal(generator, dim, dtype=dtype, std=0.2),
        "k_weight": norm_weight(generator, dim, dtype),
        "q_heads": axes["q_heads"],
        "kv_heads": axes["kv_heads"],
        "eps": epsilon(generator, draw.variant, 1e-6),
    }


def reference(**inputs: Any) -> Outputs:
    """q and k heads in fp64; v as it is."""
    import torch

    q_weight, k_weight, eps = inputs["q_weight"], inputs["k_weight"], inputs["eps"]
    q_heads, kv_heads = inputs["q_heads"], inputs["kv_heads"]
    dim = q_weight.numel()
    weight = torch.cat([q_weight.expand(q_heads, dim), k_weight.expand(kv_heads, dim)]).double()

    def rowwise(rows: torch.Tensor) -> Outputs:
        heads = rows.view(-1, q_heads + 2 * kv_heads, dim)
        normed = heads[:, : q_heads + kv_heads].double()
        scale = (normed.square().mean(-1, keepdim=True) + eps).rsqrt()
        out = heads.float().clone()
        out[:, : q_heads + kv_heads] = (normed * scale * weight).float()
        return {"qkv": out.view(rows.shape)}

    return by_rows(rowwise, inputs["qkv"])


def compare(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """q and k to two roundings of the dtype, v bit by bit."""
    normed = (inputs["q_heads"] + inputs["kv_heads"]) * inputs["q_weight"].numel()
    tolerance = rounded(str(got.dtype).removeprefix("torch."), 2, _WHY, atol=_ATOL)
    heads = within(tolerance, got[:, :normed], wanted[:, :normed])
    return both(heads, exactly(got[:, normed:], wanted[:, normed:]))


_WHY = "x·rstd is rounded, then its product with the weight; v is exact"
_ATOL = 1e-6  # steps of fp16 below 6e-5, once for each rounding

OUTPUTS = {"qkv": Output("qkv", rounded("float16", 2, _WHY, atol=_ATOL), compare)}
TASK = row_task(
    inputs,
    reference,
    OUTPUTS,
    rows="qkv",
    mutates=("qkv",),
    vary=("tokens",),
    weights=("q_weight", "k_weight"),
)

TITLE = "RMS normalization of query and key heads"
OPERATOR = Operator("fused_qk_rmsnorm", TITLE, "norm", cost, published, TASK)
