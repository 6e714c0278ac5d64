"""Matrix products."""

from __future__ import annotations

import math
import re
from typing import Any

from solscope.operators.recorded.call import Found, Recorded, Rule
from solscope.operators.tensors import Tensor, UnclearError

_NOT_TENSOR_CORES = re.compile(
    r"simt_sgemm|sgemm_|f32f32_f32f32_f32|gemv|gemmk1|gemmSN|splitKreduce"
)


def matrix_dtype(tensor: Tensor, kernel: str) -> str:
    """fp32 may run as tf32, which is faster; only a kernel that says otherwise rules it out."""
    dtype = tensor.dtype
    known = re.search("tf32|s1688", kernel) is None and _NOT_TENSOR_CORES.search(kernel)
    return dtype if dtype != "fp32" or known else "tf32"


def _gemm(call: Recorded, a_at: int, bias_at: int | None = None) -> Found:
    a, b = call.tensor(a_at), call.tensor(a_at + 1)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise UnclearError("the shapes are not those of a matrix product")
    axes: dict[str, Any] = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
    axes["dtype"] = matrix_dtype(a, call.kernel)
    if bias_at is not None and call.has(bias_at):
        axes["bias"] = call.tensor(bias_at).stored
    return "dense_gemm", axes


def _linear(call: Recorded) -> Found:
    x, weight = call.tensor(0), call.tensor(1)
    axes: dict[str, Any] = {"m": math.prod(x.shape[:-1]), "n": weight.shape[0], "k": x.shape[-1]}
    axes["dtype"] = matrix_dtype(x, call.kernel)
    if call.has(2):
        axes["bias"] = call.tensor(2).stored
    return "dense_gemm", axes


def _scaled_mm(call: Recorded) -> Found:
    a, b = call.tensor(0), call.tensor(1)
    axes = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1], "dtype": a.dtype}
    # The type of the result is recorded as a number whose meaning changes with torch: the least.
    return "dense_gemm", {**axes, "out_dtype": "fp8"}


def _distinct(tensor: Tensor) -> int:
    """Matrices of a batch that lie apart in memory."""
    return 1 if tensor.strides and tensor.strides[0] == 0 else tensor.shape[0]


def _bmm(call: Recorded, a_at: int = 0) -> Found:
    a, b = call.tensor(a_at), call.tensor(a_at + 1)
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[2] != b.shape[1]:
        raise UnclearError("the shapes are not those of a batch of matrix products")
    axes = {"batch": a.shape[0], "m": a.shape[1], "n": b.shape[2], "k": a.shape[2]}
    axes |= {"a_batch": _distinct(a), "b_batch": _distinct(b)}
    return "batched_gemm", {**axes, "dtype": matrix_dtype(a, call.kernel)}


def _baddbmm(call: Recorded) -> Found:
    name, axes = _bmm(call, 1)
    return name, {**axes, "bias": call.tensor(0).stored}


def _grouped_mm(call: Recorded) -> Found:
    a, b = call.tensor(0), call.tensor(1)
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1]:
        raise UnclearError("only rows by expert times a stack of weights are known")
    axes = {"tokens": a.shape[0], "experts": b.shape[0], "n": b.shape[2], "k": b.shape[1]}
    return "grouped_gemm", {**axes, "dtype": a.dtype}


RULES: dict[str, Rule] = {
    "aten::mm": lambda call: _gemm(call, 0),
    "aten::addmm": lambda call: _gemm(call, 1, 0),
    "aten::linear": _linear,
    "aten::_scaled_mm": _scaled_mm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::_grouped_mm": _grouped_mm,
}
