"""The gated activation of an MLP: out = silu(gate) * up, gate and up side by side in one row.

    vector   5 T I                         SiLU 4, product 1
    sfu      2 T I                         exponential and reciprocal
    bytes    gate and up in, out

Published: the same.

Solutions: run(x [T, 2 I]) -> out [T, I]; the first I columns are the gate.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/small.py.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, Published, element
from solscope.operators.suite_axes import SuiteSizes
from solscope.operators.task import Draw, Inputs, Output, Outputs
from solscope.operators.tasks.draws import (
    LARGEST_ROW,
    normal,
    places,
    row_scales,
    torch_dtype,
)
from solscope.operators.tasks.rows import by_rows, row_task
from solscope.operators.tasks.tolerances import rounded

if TYPE_CHECKING:
    import torch


@cost_model("tokens intermediate", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each value once."""
    values, size = axes["tokens"] * axes["intermediate"], element(axes)
    return Cost(
        flops={"vector.fp32": 5 * values, "sfu": 2 * values},
        read_bytes={"activations": 2 * size * values},
        write_bytes={"activations": size * values},
    )


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """Gate and up projection lie side by side in a row."""
    tokens, width = shape.input["shape"]
    return {"tokens": tokens, "intermediate": width // 2}


@in_suite("atrex_028", suite_axes)
def published(axes: Axes) -> Published:
    """As published."""
    values = axes["tokens"] * axes["intermediate"]
    return Published(flops={"bf16": 5 * values}, read_bytes=4 * values, write_bytes=2 * values)


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Gates of spread 2 with tails to ±30, where SiLU saturates; `up` with row scales.

    Extreme ones are just open enough for fp32, or shut or open beyond doubt. Between the first two,
    from -87.3 on, what is left of SiLU depends on how a kernel divides: CUDA's approximate division
    makes it 0, which a large `up` would show.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, inner = axes["tokens"], axes["intermediate"]
    x = normal(generator, tokens, 2 * inner, dtype=dtype)
    gate, up = x[:, :inner], x[:, inner:]
    tails = torch.rand(inner, generator=generator, device=generator.device)
    gate.mul_(torch.where(tails < 0.02, 15.0, 2.0).to(dtype))
    largest = min(LARGEST_ROW, torch.finfo(dtype).max / 1e3)  # times gates of up to 100
    up.mul_(row_scales(generator, tokens, draw.variant, largest=largest).to(dtype))
    if draw.variant == "extreme":
        ajar, shut, open_ = places(generator, 3, 7)
        gate[:, ajar::7] = -86.0
        gate[:, shut::7] = -32_768.0
        gate[:, open_::7] = 100.0
    return {"x": x}


def reference(x: torch.Tensor) -> Outputs:
    """In fp64, the result in fp32."""

    def rowwise(rows: torch.Tensor) -> Outputs:
        gate, up = rows.double().chunk(2, -1)
        return {"out": (gate * gate.sigmoid() * up).float()}

    return by_rows(rowwise, x)


_WHY = (
    "silu(gate) is rounded, then the product (vLLM); FlashInfer rounds once. Gates that"
    " underflow in fp32 may be 0"
)
_TOLERANCE = rounded("bfloat16", 2, _WHY, atol=1e-30)
OUTPUTS = {"out": Output("x", _TOLERANCE)}
TASK = row_task(inputs, reference, OUTPUTS, rows="x", vary=("tokens",))


def _silu_and_mul(call: Recorded) -> OperatorAxes:
    out = call.tensor(0)
    rows, width = math.prod(out.shape[:-1]), out.shape[-1]
    return "silu_and_mul", {"tokens": rows, "intermediate": width, "dtype": out.dtype}


RECORDED: dict[str, CallRule] = {
    "_C::silu_and_mul": _silu_and_mul,
    "sgl_kernel::silu_and_mul": _silu_and_mul,
}

TITLE = "SiLU and product"
OPERATOR = Operator("silu_and_mul", TITLE, "activation", cost, published, TASK, recorded=RECORDED)
