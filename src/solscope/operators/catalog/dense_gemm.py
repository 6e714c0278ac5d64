"""Matrix product of activations and weights: out[m, n] = a[m, k] b[k, n] (+ bias).

    tensor   2 m n k                       2 FLOP per multiply-add
    bytes    a, b, bias and out once

`dtype` fp32 works on the vector units; tf32 is fp32 data on the matrix units. `out_dtype` is that
of the result (default: `dtype`). `bias` counts the elements added to the product (default 0).
`weight_bits` is the size of an element of b where it is stored narrower than a (default: `dtype`).

In: a [m, k], b [n, k] (each output's weights together, as checkpoints have them: out = a bᵀ), bias
[n] or None, a_scale and b_scale in fp32 for fp8, else None, out_dtype. Out: out [m, n] in
out_dtype. `scaling` of fp8 operands is `tensor` (one scale each, default) or `row` (a_scale
[m, 1], b_scale [1, n]). fp8 has results in bf16 unless `out_dtype` says otherwise. Inputs are made
for bf16, fp16 and fp8.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/products.py, shapes in
# suite/shipped/decode.json.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from solscope.errors import UsageError
from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.calls.matrices import matrix_dtype
from solscope.operators.cost import BYTES, Axes, Cost, element, matrix_pipe
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.draws import (
    TORCH_NAMES,
    normal,
    places,
    row_scales,
    torch_dtype,
)
from solscope.operators.tasks.fp8 import MAX, encode, quantize
from solscope.operators.tasks.rows import by_rows, pick_rows
from solscope.operators.tensors import UnclearError

if TYPE_CHECKING:
    import torch


@cost_model("m n k", optional="dtype out_dtype bias weight_bits scaling")
def cost(axes: Axes) -> Cost:
    """Each matrix once, whatever the tiles of a kernel read again."""
    m, n, k, size = axes["m"], axes["n"], axes["k"], element(axes)
    weight = axes.get("weight_bits", 8 * size) / 8
    out = BYTES[axes.get("out_dtype", axes.get("dtype", "bf16"))]
    return Cost(
        flops={matrix_pipe(axes): 2 * m * n * k},
        read_bytes={
            "activations": size * m * k,
            "weights": weight * k * n + size * axes.get("bias", 0),
        },
        write_bytes={"activations": out * m * n},
    )


_DRAWN = 1 << 26
"""Values drawn at a time."""


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Rows of unlike scale and outlier channels; `extreme`: rows from 1e-4 up, in bf16."""
    dtype = axes.get("dtype", "bf16")
    if dtype not in ("bf16", "fp16", "fp8") or "weight_bits" in axes:
        raise UsageError(
            f"dense_gemm cannot be run with dtype {dtype} and weight_bits "
            f"{axes.get('weight_bits')}: inputs are made for bf16, fp16 and fp8 in both matrices"
        )
    generator = draw.generator()
    m, n, k = axes["m"], axes["n"], axes["k"]
    wide = torch_dtype("bf16" if dtype == "fp8" else dtype)
    variant = draw.variant if dtype == "bf16" else "typical"
    a = normal(generator, m, k, dtype=wide)
    scale = row_scales(generator, m, variant, spread=0.5, largest=4.0).clamp_max(4.0)
    if variant == "extreme":
        scale[places(generator, 1, m)] = 4.0  # one row at least is not small
    a *= scale.to(wide)
    a[:, places(generator, max(1, k // 100), k)] *= 4
    b = normal(generator, n, k, dtype=wide, std=k**-0.5)
    bias = normal(generator, n, dtype=wide) if axes.get("bias") else None
    scales: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    if dtype == "fp8":
        by_row = axes.get("scaling") == "row"
        (a, a_scale), (b, b_scale) = (_quantized(x, draw.fp8, by_row) for x in (a, b))
        scales = (a_scale, b_scale.T.contiguous() if by_row else b_scale)
    return {
        "a": a,
        "b": b,
        "bias": bias,
        "a_scale": scales[0],
        "b_scale": scales[1],
        "out_dtype": TORCH_NAMES[_out_dtype(axes)],
    }


def _out_dtype(axes: Axes) -> str:
    dtype = axes.get("dtype", "bf16")
    return str(axes.get("out_dtype", "bf16" if dtype == "fp8" else dtype))


def _quantized(values: torch.Tensor, fp8: str, by_row: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scale of a matrix, in slices: an fp32 copy of the largest does not fit."""
    import torch

    scale = values.abs().max().float().clamp_min(1e-12) / MAX[fp8]
    codes, scales = [], []
    for rows in torch.split(values, max(1, _DRAWN // values.shape[1])):
        if by_row:
            some, row_scale = quantize(rows, fp8, least_amax=1e-12)
            scales.append(row_scale)
        else:
            some = encode(rows.float() / scale, fp8)
        codes.append(some.view(torch.uint8))
    return torch.cat(codes).view(some.dtype), torch.cat(scales) if by_row else scale.view(1)


def realized(axes: Axes, inputs: Inputs) -> Axes:
    """The axes with the dtype of the result, which has a different default for fp8."""
    del inputs
    return {**axes, "out_dtype": _out_dtype(axes)}


def reference(**inputs: Any) -> Outputs:
    """The product in fp64, some rows at a time."""
    import torch

    a, bias, b_scale = inputs["a"], inputs["bias"], inputs["b_scale"]
    right = inputs["b"].double().T

    def rowwise(rows: torch.Tensor, scale: torch.Tensor) -> Outputs:
        product = rows.double() @ right
        if b_scale is not None:
            product = product * scale.double() * b_scale.double()
        return {"out": (product if bias is None else product + bias.double()).float()}

    a_scale = inputs["a_scale"]
    scale = torch.ones(1, device=a.device) if a_scale is None else a_scale
    return by_rows(rowwise, a, scale.expand(len(a), 1))


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """Some rows of the product."""
    scale = inputs["a_scale"]
    picked = {"a": pick_rows(inputs["a"], rows)}
    if scale is not None and scale.ndim == 2:
        picked["a_scale"] = scale[rows]
    return reference(**{**inputs, **picked})


_WHY = (
    "products summed in fp32 and one rounding to bf16 (1.7e-3), another where k is "
    "split; fp8 summed in the 14 bits that Hopper's tensor cores keep, as cuBLAS does, "
    "was measured at 3.5e-3 for k = 14,336; bf16 operands cut to 8 bits give 4e-2"
)
_TOLERANCE = Tolerance(
    "close", atol=0.02, rtol=1e-2, rms=4.5e-3, row_rms=7e-3, matched=0.999, why=_WHY
)
OUTPUTS = {"out": Output("out_dtype", _TOLERANCE)}
TASK = Task(
    inputs,
    reference,
    OUTPUTS,
    sampled=sampled,
    realized=realized,
    vary=("m",),
    weights=("b", "bias", "b_scale"),
)


def _gemm(call: Recorded, a_at: int, bias_at: int | None = None) -> OperatorAxes:
    a, b = call.tensor(a_at), call.tensor(a_at + 1)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise UnclearError("the shapes are not those of a matrix product")
    axes: dict[str, Any] = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
    axes["dtype"] = matrix_dtype(a, call.kernel)
    if bias_at is not None and call.has(bias_at):
        axes["bias"] = call.tensor(bias_at).stored
    return "dense_gemm", axes


def _linear(call: Recorded) -> OperatorAxes:
    x, weight = call.tensor(0), call.tensor(1)
    axes: dict[str, Any] = {"m": math.prod(x.shape[:-1]), "n": weight.shape[0], "k": x.shape[-1]}
    axes["dtype"] = matrix_dtype(x, call.kernel)
    if call.has(2):
        axes["bias"] = call.tensor(2).stored
    return "dense_gemm", axes


def _scaled_mm(a_at: int = 0, out_at: int | None = None) -> CallRule:
    """Narrow inputs a and b with scales, which count nothing; fp4 lies two to an element."""

    def rule(call: Recorded) -> OperatorAxes:
        a, b = call.tensor(a_at), call.tensor(a_at + 1)
        packed = a.type in ("unsigned char", "c10::Float4_e2m1fn_x2")
        k = 2 * a.shape[1] if packed else a.shape[1]
        # Engines give b of fp4 by rows, torch and all others by columns.
        by_rows = a.type == "unsigned char"
        if len(b.shape) != 2 or b.shape[1 if by_rows else 0] != a.shape[1]:
            raise UnclearError("the shapes are not those of a matrix product")
        axes = {"m": a.shape[0], "n": b.shape[0 if by_rows else 1], "k": k}
        kind = "fp4" if packed else a.dtype
        # torch records the type of the result as a number whose meaning changes: the least.
        out = "fp8" if out_at is None else call.tensor(out_at).dtype
        return "dense_gemm", {**axes, "dtype": kind, "out_dtype": out}

    return rule


def _int_mm(call: Recorded) -> OperatorAxes:
    """int8 in, int32 out."""
    name, axes = _gemm(call, 0)
    return name, {**axes, "out_dtype": "fp32"}


_BITS = (2, 3, 4, 6, 8)


def _narrow_weights(call: Recorded) -> OperatorAxes:
    """Weights packed into integers, then their scales by group and column (Marlin, AWQ, GPTQ)."""
    a = call.tensor(0)
    rest = [call.tensor(index) for index in range(1, len(call.types)) if call.has(index)]
    packed = next(
        (index for index, t in enumerate(rest) if t.type in ("int", "unsigned char")), len(rest)
    )
    scales = next((t for t in rest[packed + 1 :] if t.floating and len(t.shape) >= 2), None)
    if scales is None or len(a.shape) != 2:
        raise UnclearError("the packed weights and their scales are not recorded")
    m, k = a.shape
    n = scales.shape[1]
    bits = next((bits for bits in _BITS if 8 * rest[packed].bytes == bits * k * n), None)
    if bits is None:
        raise UnclearError("the sizes of packed weights and scales do not fit together")
    return "dense_gemm", {"m": m, "n": n, "k": k, "dtype": a.dtype, "weight_bits": bits}


RECORDED: dict[str, CallRule] = {
    "aten::mm": lambda call: _gemm(call, 0),
    "aten::addmm": lambda call: _gemm(call, 1, 0),
    "aten::linear": _linear,
    "aten::_int_mm": _int_mm,
    "aten::_scaled_mm": _scaled_mm(),
    "sgl_kernel::fp8_scaled_mm": _scaled_mm(),
    "sgl_kernel::int8_scaled_mm": _scaled_mm(),
    "sgl_kernel::fp8_blockwise_scaled_mm": _scaled_mm(),
    "_C::cutlass_scaled_mm": _scaled_mm(1, out_at=0),
    "_C::cutlass_scaled_fp4_mm": _scaled_mm(1, out_at=0),
    "sgl_kernel::cutlass_scaled_fp4_mm": _scaled_mm(1, out_at=0),
    "aten::_weight_int4pack_mm": _narrow_weights,
    "_C::awq_gemm": _narrow_weights,
    "_C::gptq_gemm": _narrow_weights,
    "_C::machete_mm": _narrow_weights,
    "_C::marlin_gemm": _narrow_weights,
    "_C::gptq_marlin_gemm": _narrow_weights,
    "sgl_kernel::gptq_marlin_gemm": _narrow_weights,
}

TITLE = "Matrix product with weights"
OPERATOR = Operator("dense_gemm", TITLE, "gemm", cost, task=TASK, recorded=RECORDED)
