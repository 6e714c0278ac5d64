"""Rotary position embedding of the query and key heads of a fused qkv row, in place.

Pairs (i, i + R/2) of the first R of D values turn by pos · base^(-2i/R).

    vector   3 T (Hq + Hk) R               two products and a sum per value
    sfu      T R                           sine and cosine of R/2 angles per token
    bytes    q and k in and out, positions (int32)

Published: v is copied too, 1.11 to 1.20 times the bytes needed.

Solutions: run(qkv [T, (Hq + 2 Hk) D], positions [T] int32, cos_sin_cache [32768, R] fp32, q_heads,
kv_heads, head_dim), in place. The table holds R/2 cosines and R/2 sines of each position, of one of
several bases, as vLLM and FlashInfer keep it: angles computed in fp32 are off by up to 0.01 at long
contexts. v and the D - R values behind are compared bit by bit.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs
from solscope.operators.tasks.draws import activations, another, torch_dtype
from solscope.operators.tasks.judge import both, exactly
from solscope.operators.tasks.rotation import rotated, rotation_cost, rotation_judgement
from solscope.operators.tasks.rows import by_rows, row_task

if TYPE_CHECKING:
    import torch


@cost_model("tokens q_heads kv_heads head_dim rotary_dim", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Only the q and k heads move; angles are computed, not read."""
    angles = {"sfu": axes["tokens"] * axes["rotary_dim"]}
    return rotation_cost(axes, index_bytes=4 * axes["tokens"], other_flops=angles)


@in_suite(
    "atrex_011",
    "tokens=total_tokens q_heads=num_heads kv_heads=num_kv_heads head_dim"
    " rotary_dim=rope_dim dtype",
)
def published(axes: Axes) -> Published:
    """As published: the whole qkv row in and out, booked as fp16 for bf16 shapes too."""
    tokens, dim = axes["tokens"], axes["head_dim"]
    heads, kv_heads = axes["q_heads"], axes["kv_heads"]
    row_bytes = 2 * tokens * (heads + 2 * kv_heads) * dim
    return Published(
        flops={"fp16": 3 * tokens * (heads + kv_heads) * dim + 3 * tokens * dim // 2},
        read_bytes=row_bytes + 4 * tokens,
        write_bytes=row_bytes,
    )


CONTEXT = 32_768
"""Positions in the table of cosines and sines."""
BASES = (10_000.0, 150_000.0, 500_000.0, 1_000_000.0, 8_000_000.0)
"""Bases of the angles in deployed models; a draw takes one of them."""


@lru_cache(maxsize=len(BASES))
def _table(rotary: int, base: float) -> torch.Tensor:
    """Cosines and sines of every position, fp32 [CONTEXT, rotary], from angles in fp64."""
    import torch

    power = torch.arange(0, rotary, 2, dtype=torch.float64) / rotary
    angle = torch.arange(CONTEXT, dtype=torch.float64)[:, None] * base**-power
    return torch.cat([angle.cos(), angle.sin()], -1).float()


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Unsorted positions with repeats, none of them 0 where all turn by nothing.

    `varied` turns another part of the heads.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, dim = axes["tokens"], axes["head_dim"]
    rotary = axes["rotary_dim"]
    if draw.variant == "varied":
        rotary = another(generator, (dim // 2, dim), rotary)
    heads = axes["q_heads"] + 2 * axes["kv_heads"]
    qkv = activations(generator, tokens * heads, dim, dtype, draw.variant, edge_rows=False)
    low = CONTEXT - 64 if draw.variant == "extreme" else 1
    positions = torch.randint(
        low, CONTEXT, (tokens,), generator=generator, device=generator.device, dtype=torch.int32
    )
    which = int(torch.randint(len(BASES), (), generator=generator, device=generator.device))
    return {
        "qkv": qkv.view(tokens, heads * dim),
        "positions": positions,
        "cos_sin_cache": _table(rotary, BASES[which]).to(generator.device, copy=True),
        "q_heads": axes["q_heads"],
        "kv_heads": axes["kv_heads"],
        "head_dim": dim,
    }


def reference(**inputs: Any) -> Outputs:
    """q and k heads in fp64; v and what lies behind the rotary part as they are."""
    q_heads, kv_heads, head_dim = inputs["q_heads"], inputs["kv_heads"], inputs["head_dim"]

    def rowwise(rows: torch.Tensor, where: torch.Tensor) -> Outputs:
        heads = rows.view(-1, q_heads + 2 * kv_heads, head_dim)
        cos, sin = inputs["cos_sin_cache"][where.long()].double()[:, None].chunk(2, -1)
        out = heads.float().clone()
        half = cos.shape[-1]
        turned = heads[:, : q_heads + kv_heads].double()
        x, y = turned[..., :half], turned[..., half : 2 * half]
        out[:, : q_heads + kv_heads, :half] = (x * cos - y * sin).float()
        out[:, : q_heads + kv_heads, half : 2 * half] = (y * cos + x * sin).float()
        return {"qkv": out.view(rows.shape)}

    return by_rows(rowwise, inputs["qkv"], inputs["positions"])


def compare(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """Rotated values by head, all others bit by bit."""
    dim, rotary = inputs["head_dim"], inputs["cos_sin_cache"].shape[-1]
    turned = (inputs["q_heads"] + inputs["kv_heads"]) * dim
    dtype = str(got.dtype).removeprefix("torch.")
    sides = [side.view(side.shape[0], -1, dim) for side in (got[:, :turned], wanted[:, :turned])]
    heads = rotation_judgement(dtype, *(side[..., :rotary] for side in sides))
    passed = exactly(*(side[..., rotary:] for side in sides))
    return both(heads, both(passed, exactly(got[:, turned:], wanted[:, turned:])))


def realized(axes: Axes, inputs: Inputs) -> Axes:
    """With as many rotated values as the table has angles."""
    return {**axes, "rotary_dim": inputs["cos_sin_cache"].shape[-1]}


OUTPUTS = {"qkv": Output("qkv", rotated("float16"), compare)}
TASK = row_task(
    inputs,
    reference,
    OUTPUTS,
    rows="qkv positions",
    mutates=("qkv",),
    vary=("tokens",),
    weights=("cos_sin_cache",),
    realized=realized,
)

TITLE = "Rotary embedding of query and key heads"
OPERATOR = Operator("fused_qkv_rope", TITLE, "rope", cost, published, TASK)
