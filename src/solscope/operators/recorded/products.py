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


def _scaled_mm(a_at: int = 0, out_at: int | None = None) -> Rule:
    """Narrow inputs a and b with scales, which count nothing; fp4 lies two to an element."""

    def rule(call: Recorded) -> Found:
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


def _int_mm(call: Recorded) -> Found:
    """int8 in, int32 out."""
    name, axes = _gemm(call, 0)
    return name, {**axes, "out_dtype": "fp32"}


_BITS = (2, 3, 4, 6, 8)


def _narrow_weights(call: Recorded) -> Found:
    """Weights packed into integers, then their scales by group and column (Marlin, AWQ, GPTQ)."""
    a = call.tensor(0)
    rest = [call.tensor(at) for at in range(1, len(call.types)) if call.has(at)]
    at = next((at for at, t in enumerate(rest) if t.type in ("int", "unsigned char")), len(rest))
    scales = next((t for t in rest[at + 1 :] if t.floating and len(t.shape) >= 2), None)
    if scales is None or len(a.shape) != 2:
        raise UnclearError("the packed weights and their scales are not recorded")
    m, k = a.shape
    n = scales.shape[1]
    bits = next((bits for bits in _BITS if 8 * rest[at].bytes == bits * k * n), None)
    if bits is None:
        raise UnclearError("the sizes of packed weights and scales do not fit together")
    return "dense_gemm", {"m": m, "n": n, "k": k, "dtype": a.dtype, "weight_bits": bits}


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


def _fused_experts(call: Recorded) -> Found:
    """x, both stacks of weights, routing weights and ids, as vLLM and SGLang pass them."""
    x, first, second, _, ids = (call.tensor(at) for at in range(5))
    experts, doubled, hidden = first.shape
    if second.shape != (experts, hidden, doubled // 2) or x.shape[-1] != hidden:
        raise UnclearError("the weights of the experts are packed")
    axes = {"tokens": math.prod(x.shape[:-1]), "hidden": hidden, "intermediate": doubled // 2}
    axes |= {"experts": experts, "top_k": ids.shape[-1]}
    return "fused_moe", {**axes, "dtype": first.dtype}


RULES: dict[str, Rule] = {
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
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _grouped_mm,
    **{
        f"{engine}::{way}_fused_experts": _fused_experts
        for engine in ("vllm", "sglang")
        for way in ("inplace", "outplace")
    },
}
