"""From an operator as a profile records it to an entry of the catalogue and its axes.

`recognize` looks the recorded name up in a table of small functions. Each takes the recorded call
and returns the operator's name and axes, or raises `UnclearError` with the reason why shapes, types
and scalar arguments do not determine the cost. Nothing is guessed: what the record leaves open
counts as the case that costs least.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from solscope.operators.tensors import (
    DTYPES,
    Tensor,
    UnclearError,
    broadcast,
    result_size,
)

Found = tuple[str, dict[str, Any]]
"""Name of a catalogue operator, and its axes."""


@dataclass(frozen=True)
class Recorded:
    """One operator call as recorded, and the kernel that took most of its time."""

    name: str
    dims: list[Any]
    types: list[str]
    strides: list[Any] = field(default_factory=list)
    concrete: list[str] = field(default_factory=list)
    kernel: str = ""

    def tensor(self, at: int) -> Tensor:
        """Input `at`, which must be a tensor."""
        shape = self.dims[at] if at < len(self.dims) else None
        kind = self.types[at] if at < len(self.types) else ""
        if kind in _NO_TENSOR or not _whole_numbers(shape):
            raise UnclearError(f"input {at} is not recorded as a tensor")
        tensor = Tensor(tuple(shape), kind, self._strides(at))
        if tensor.numel > MOST_ELEMENTS:
            raise UnclearError(f"input {at} is larger than any memory")
        return tensor

    def has(self, at: int) -> bool:
        """Whether input `at` is a tensor."""
        return at < len(self.types) and self.types[at] not in _NO_TENSOR

    def tensors(self, count: int) -> list[Tensor]:
        """Those of the first `count` inputs that are tensors."""
        found = [self.tensor(at) for at in range(min(count, len(self.types))) if self.has(at)]
        if not found:
            raise UnclearError("no input is recorded as a tensor")
        return found

    def scalar(self, at: int) -> str:
        """Scalar argument `at` as text; empty when it is not recorded."""
        return self.concrete[at] if at < len(self.concrete) else ""

    def _strides(self, at: int) -> tuple[int, ...] | None:
        found = self.strides[at] if at < len(self.strides) else None
        return tuple(found) if _whole_numbers(found) else None


Rule = Callable[[Recorded], Found]
"""Reads the axes of one kind of operator, or raises `UnclearError`."""

_NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "GenericList")


MOST_ELEMENTS = 1 << 50
"""A shape beyond this is damage, not a tensor."""


def _whole_numbers(shape: Any) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)


def recognize(call: Recorded) -> Found | str:
    """The operator and axes of a recorded call, or the reason why there are none."""
    rule = RULES.get(call.name) or RULES.get(call.name.removesuffix("_"))
    if rule is None:
        return "no cost model for this operator"
    try:
        return rule(call)
    except UnclearError as error:
        return str(error)
    except (LookupError, ArithmeticError, ValueError):
        return f"the recorded inputs are not those of {call.name}"


# --- Matrix products

_NOT_TENSOR_CORES = re.compile(
    r"simt_sgemm|sgemm_|f32f32_f32f32_f32|gemv|gemmk1|gemmSN|splitKreduce"
)


def _matrix_dtype(tensor: Tensor, kernel: str) -> str:
    """fp32 may run as tf32, which is faster; only a kernel that says otherwise rules it out."""
    dtype = tensor.dtype
    known = re.search("tf32|s1688", kernel) is None and _NOT_TENSOR_CORES.search(kernel)
    return dtype if dtype != "fp32" or known else "tf32"


def _gemm(call: Recorded, a_at: int, bias_at: int | None = None) -> Found:
    a, b = call.tensor(a_at), call.tensor(a_at + 1)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise UnclearError("the shapes are not those of a matrix product")
    axes: dict[str, Any] = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
    axes["dtype"] = _matrix_dtype(a, call.kernel)
    if bias_at is not None and call.has(bias_at):
        axes["bias"] = call.tensor(bias_at).stored
    return "dense_gemm", axes


def _linear(call: Recorded) -> Found:
    x, weight = call.tensor(0), call.tensor(1)
    axes: dict[str, Any] = {"m": math.prod(x.shape[:-1]), "n": weight.shape[0], "k": x.shape[-1]}
    axes["dtype"] = _matrix_dtype(x, call.kernel)
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
    return "batched_gemm", {**axes, "dtype": _matrix_dtype(a, call.kernel)}


def _baddbmm(call: Recorded) -> Found:
    name, axes = _bmm(call, 1)
    return name, {**axes, "bias": call.tensor(0).stored}


def _grouped_mm(call: Recorded) -> Found:
    a, b = call.tensor(0), call.tensor(1)
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1]:
        raise UnclearError("only rows by expert times a stack of weights are known")
    axes = {"tokens": a.shape[0], "experts": b.shape[0], "n": b.shape[2], "k": b.shape[1]}
    return "grouped_gemm", {**axes, "dtype": a.dtype}


# --- Attention


def _attention(causal_at: int, mask_at: int | None = None, heads_at: int = 1) -> Rule:
    """Dense q, k, v with the heads in dimension `heads_at`, the other one being the sequence."""

    def rule(call: Recorded) -> Found:
        q, k, v = (call.tensor(at) for at in range(3))
        if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
            raise UnclearError("packed sequences: their lengths are not recorded")
        rows_at = 3 - heads_at
        queries, keys = q.shape[rows_at], k.shape[rows_at]
        masked = mask_at is not None and call.has(mask_at)
        # A mask may be causal too; one query sees every key either way.
        causal = queries > 1 and (masked or call.scalar(causal_at) not in ("False", "0"))
        axes = {
            "batch": q.shape[0],
            "queries": queries,
            "keys": keys,
            "q_heads": q.shape[heads_at],
            "kv_heads": k.shape[heads_at],
            "head_dim": q.shape[3],
            "v_dim": v.shape[3],
            "causal": causal,
            "dtype": _matrix_dtype(q, ""),
        }
        if masked and mask_at is not None:
            axes["mask_bytes"] = call.tensor(mask_at).bytes
        return "dot_product_attention", axes

    return rule


# --- One function per element

_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isin"
_UNARY = "neg abs relu floor ceil round trunc sign square bitwise_not clamp clamp_min clamp_max pow"
_BINARY = (
    "add sub rsub mul div true_divide floor_divide remainder fmod maximum minimum "
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
)
_SPECIAL = "silu sigmoid exp exp2 log log2 sqrt rsqrt reciprocal sin cos tanh gelu erf softplus"
_FLOATING_RESULT = ("aten::div", "aten::true_divide")


def _elementwise(inputs: int, sfu: int = 0, result: int | None = None) -> Rule:
    """`inputs` tensors or scalars at the front; `result` bytes per element where known."""

    def rule(call: Recorded) -> Found:
        read = call.tensors(inputs)
        in_place = call.name.endswith("_")
        elements = math.prod(broadcast(read[:1] if in_place else read))
        size = read[0].size if in_place else result or result_size(read)
        if call.name in _FLOATING_RESULT and not any(t.floating for t in read):
            size = 4
        flop = 1 if any(t.floating for t in read) else 0
        axes = {"elements": elements, "flop": flop, "sfu": sfu}
        # A product of two alike may be a square (x * x), which reads x once.
        square = call.name == "aten::mul" and len(read) == 2 and read[0] == read[1]
        bytes_read = sum(t.bytes for t in (read[:1] if square else read))
        return "elementwise", {**axes, "read_bytes": bytes_read, "write_bytes": size * elements}

    return rule


def _where(call: Recorded) -> Found:
    """Each element comes from one of the two sources: perhaps all from the smaller."""
    read = call.tensors(3)
    if len(read) != 3:
        raise UnclearError("the condition alone does not determine the size of the result")
    elements, size = math.prod(broadcast(read)), result_size(read[1:])
    least = read[0].bytes + min(t.bytes for t in read[1:])
    return "elementwise", {
        "elements": elements,
        "read_bytes": least,
        "write_bytes": size * elements,
    }


def _masked_fill_in_place(call: Recorded) -> Found:
    """Elements that keep their value need not move: perhaps none changes."""
    mask = call.tensor(1)
    return "elementwise", {"elements": mask.numel, "read_bytes": mask.bytes, "write_bytes": 0}


def _copy(call: Recorded) -> Found:
    to, source = call.tensor(0), call.tensor(1)
    read, written = min(source.stored, to.numel) * source.size, to.bytes
    if "HtoD" in call.kernel or "Host -> Device" in call.kernel:
        read = 0
    if "DtoH" in call.kernel or "Device -> Host" in call.kernel:
        written = 0
    return "copy", {"read_bytes": read, "write_bytes": written}


_OPAQUE = re.compile(r"OpaqueType<(\d+)")


def _cat(call: Recorded) -> Found:
    """The types in a list of tensors are not recorded; the kernel's name has their size."""
    size = _OPAQUE.search(call.kernel)
    shapes = call.dims[0] if call.dims else None
    if size is None or not isinstance(shapes, list) or not all(map(_whole_numbers, shapes)):
        raise UnclearError("the type of the tensors in a list is not recorded")
    strides = call.strides[0] if call.strides else None
    steps: list[Any] = strides if isinstance(strides, list) else []
    steps = steps if len(steps) == len(shapes) else [None] * len(shapes)
    parts = [
        Tensor(tuple(shape), "", tuple(step) if _whole_numbers(step) else None)
        for shape, step in zip(shapes, steps, strict=True)
    ]
    width = int(size.group(1))
    read, written = sum(p.stored for p in parts), sum(p.numel for p in parts)
    return "copy", {"read_bytes": width * read, "write_bytes": width * written}


def _fill(call: Recorded) -> Found:
    return "fill", {"write_bytes": call.tensor(0).bytes}


def _arange(call: Recorded) -> Found:
    try:
        numbers = [float(text) for text in call.concrete if text]
        start, end, step = numbers if len(numbers) == 3 else (0.0, *numbers, 1.0)
        count = max(0, math.ceil((end - start) / step))
    except (ValueError, ZeroDivisionError):
        raise UnclearError("the limits of the sequence are not recorded") from None
    out = next((call.tensor(at) for at in range(len(call.types)) if call.has(at)), None)
    if out is None:
        raise UnclearError("the type of the result is not recorded")
    return "fill", {"write_bytes": out.size * count}


# --- Indexing, reductions, rows


def _embedding(weight_at: int, index_at: int) -> Rule:
    def rule(call: Recorded) -> Found:
        weight, index = call.tensor(weight_at), call.tensor(index_at)
        row = weight.size * math.prod(weight.shape[1:])
        if call.name == "aten::index_select" and call.scalar(1) not in ("0", ""):
            raise UnclearError("only rows are known, not columns")
        axes = {"index_bytes": index.bytes, "row_bytes": row if index.numel else 0}
        return "gather", {**axes, "write_bytes": row * index.numel}

    return rule


def _gather(call: Recorded) -> Found:
    source, index = call.tensor(0), call.tensor(2)
    axes = {"index_bytes": index.bytes, "row_bytes": source.size}
    return "gather", {**axes, "write_bytes": source.size * index.numel}


def _index_put(call: Recorded) -> Found:
    into, values = call.tensor(0), call.tensor(2)
    written = into.size * values.numel
    return "scatter", {"value_bytes": values.bytes, "write_bytes": written}


def _scatter(call: Recorded) -> Found:
    into, index = call.tensor(0), call.tensor(2)
    read = call.tensor(3).bytes if call.has(3) else 0
    axes = {"value_bytes": read, "index_bytes": index.bytes}
    return "scatter", {**axes, "write_bytes": into.size * index.numel}


def _reduced(shape: tuple[int, ...], dims: str) -> int:
    """Elements left when the dimensions listed in `dims` are reduced; all of them when empty."""
    listed = [int(number) for number in re.findall(r"-?\d+", dims)]
    gone = {d % len(shape) for d in listed} if shape and listed else set(range(len(shape)))
    return math.prod(length for at, length in enumerate(shape) if at not in gone)


def _reduce(size: int | None = None) -> Rule:
    """A reduction over the dimensions of argument 1; `size` bytes per result where known."""

    def rule(call: Recorded) -> Found:
        x = call.tensor(0)
        left = _reduced(x.shape, call.scalar(1))
        flop = x.numel - left if x.floating else 0
        written = left * (size or x.size)
        return "reduce", {"flop": flop, "read_bytes": x.bytes, "write_bytes": written}

    return rule


def _histogram(call: Recorded) -> Found:
    x, bins = call.tensor(0), call.scalar(1)
    written = x.size * int(bins) if bins.isdigit() else 0
    return "reduce", {"read_bytes": x.bytes, "write_bytes": written}


def _softmax(call: Recorded) -> Found:
    x = call.tensor(0)
    axes = {"elements": x.numel, "read_bytes": x.bytes}
    return "softmax", {**axes, "write_bytes": x.numel * x.size}


def _topk(call: Recorded) -> Found:
    x, count = call.tensor(0), call.scalar(1)
    if not count.isdigit() or call.scalar(2) not in ("-1", str(len(x.shape) - 1)) or not x.shape:
        raise UnclearError("how many of each row are taken is not recorded")
    kept = math.prod(x.shape[:-1]) * int(count)
    return "sort", {"read_bytes": x.bytes, "value_bytes": x.size * kept, "index_bytes": 8 * kept}


def _sort(call: Recorded) -> Found:
    x = call.tensor(0)
    written = {"value_bytes": x.size * x.numel, "index_bytes": 8 * x.numel}
    return "sort", {"read_bytes": x.bytes, **written}


def _norm(operator: str, x_at: int, weight_at: int | None) -> Rule:
    """A norm of the rows of input `x_at`, as wide as its weight."""

    def rule(call: Recorded) -> Found:
        x = call.tensor(x_at)
        if weight_at is None or not call.has(weight_at):
            raise UnclearError("a norm without weight has no entry in the catalogue")
        hidden = call.tensor(weight_at).numel
        return operator, {"tokens": x.numel // max(1, hidden), "hidden": hidden, "dtype": x.dtype}

    return rule


def _silu_and_mul(call: Recorded) -> Found:
    out = call.tensor(0)
    rows, width = math.prod(out.shape[:-1]), out.shape[-1]
    return "silu_and_mul", {"tokens": rows, "intermediate": width, "dtype": out.dtype}


def _rotary(call: Recorded) -> Found:
    """Positions, q and k in, q and k out; which rows of the table are read is not recorded."""
    positions, q, k = (call.tensor(at) for at in range(3))
    moved = q.bytes + k.bytes
    axes = {"elements": q.numel + k.numel, "flop": 3, "read_bytes": moved + positions.bytes}
    return "elementwise", {**axes, "write_bytes": moved}


def _store_cache(call: Recorded) -> Found:
    """Keys and values into a paged cache, perhaps in another type."""
    key, value, cache, slots = (call.tensor(at) for at in (0, 1, 2, 4))
    read, written = key.bytes + value.bytes, cache.size * (key.numel + value.numel)
    return "scatter", {"value_bytes": read, "write_bytes": written, "index_bytes": slots.bytes}


def _quant(call: Recorded) -> Found:
    out, x = call.tensor(0), call.tensor(1)
    axes = {"elements": x.numel, "flop": 1, "read_bytes": x.bytes}
    return "elementwise", {**axes, "write_bytes": out.bytes}


def _one_element(call: Recorded) -> Found:
    """One element to the host."""
    return "copy", {"read_bytes": call.tensor(0).size, "write_bytes": 0}


def _unclear(reason: str) -> Rule:
    """Known by name, but what profiles record does not determine the cost."""

    def rule(_: Recorded) -> Found:
        raise UnclearError(reason)

    return rule


def _triangular_solve(call: Recorded) -> Found:
    a, b = call.tensor(0), call.tensor(1)
    if a.dtype != "fp32" or call.scalar(3) == "False" or a.shape[:-2] != b.shape[:-2]:
        raise UnclearError("only fp32 with the triangle on the left is known")
    return "triangular_solve", {
        "batch": math.prod(a.shape[:-2]),
        "n": a.shape[-1],
        "m": b.shape[-1],
    }


def _depthwise(call: Recorded) -> Found:
    x, weight = call.tensor(0), call.tensor(1)
    if len(x.shape) != 4 or x.shape[2] != 1 or call.scalar(4) != "[1, 1]":
        raise UnclearError("only a convolution along one dimension with stride 1 is known")
    padding = [int(number) for number in re.findall(r"\d+", call.scalar(5))] or [0]
    length, width = x.shape[3], weight.shape[3]
    axes = {"batch": x.shape[0], "channels": x.shape[1], "in_length": length, "width": width}
    out = max(0, length + 2 * padding[-1] - width + 1)
    return "depthwise_conv", {**axes, "out_length": out, "element_bytes": x.size}


RULES: dict[str, Rule] = {
    "aten::mm": lambda call: _gemm(call, 0),
    "aten::addmm": lambda call: _gemm(call, 1, 0),
    "aten::linear": _linear,
    "aten::_scaled_mm": _scaled_mm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_flash_attention_forward": _attention(8, heads_at=2),
    "aten::_efficient_attention_forward": _attention(9, 3, heads_at=2),
    "aten::_cudnn_attention_forward": _attention(10, 3),
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_efficient_attention": _attention(6, 3),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6, 3),
    "aten::scaled_dot_product_attention": _attention(5, 3),
    **{f"aten::{name}": _elementwise(2, result=1) for name in _COMPARE.split()},
    **{f"aten::{name}": _elementwise(1) for name in _UNARY.split()},
    **{f"aten::{name}": _elementwise(2) for name in _BINARY.split()},
    **{f"aten::{name}": _elementwise(1, sfu=1) for name in _SPECIAL.split()},
    "aten::addcmul": _elementwise(3),
    "aten::lerp": _elementwise(3),
    "aten::cumsum": _elementwise(1),
    "aten::tril": _elementwise(1),
    "aten::triu": _elementwise(1),
    "aten::where": _where,
    "aten::masked_fill_": _masked_fill_in_place,
    "aten::copy_": _copy,
    "aten::cat": _cat,
    "aten::fill_": _fill,
    "aten::zero_": _fill,
    "aten::exponential_": _fill,
    "aten::random_": _fill,
    "aten::normal_": _fill,
    "aten::uniform_": _fill,
    "aten::arange": _arange,
    "aten::embedding": _embedding(0, 1),
    "aten::index_select": _embedding(0, 2),
    "aten::gather": _gather,
    "aten::_index_put_impl_": _index_put,
    "aten::scatter_": _scatter,
    **{f"aten::{name}": _reduce() for name in ("sum", "mean", "max", "min", "amax", "amin")},
    **{f"aten::{name}": _reduce(1) for name in ("any", "all")},
    **{f"aten::{name}": _reduce(8) for name in ("argmax", "argmin")},
    "aten::histc": _histogram,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::topk": _topk,
    "aten::sort": _sort,
    "aten::_fused_rms_norm": _norm("rms_norm", 0, 2),
    "aten::native_layer_norm": _norm("layer_norm", 0, 2),
    "_C::rms_norm": _norm("rms_norm", 1, 2),
    "_C::fused_add_rms_norm": _norm("fused_add_rms_norm", 0, 2),
    "_C::silu_and_mul": _silu_and_mul,
    "_C::rotary_embedding": _rotary,
    "_C::static_scaled_fp8_quant": _quant,
    "_C_cache_ops::reshape_and_cache_flash": _store_cache,
    "sgl_kernel::silu_and_mul": _silu_and_mul,
    "sgl_kernel::rotary_embedding": _rotary,
    "sglang::store_cache": _store_cache,
    "aiter::rmsnorm": _norm("rms_norm", 1, 2),
    "aiter::add_rmsnorm": _norm("fused_add_rms_norm", 1, 4),
    "aten::_local_scalar_dense": _one_element,
    "aten::_assert_async": _one_element,
    "aten::index": _unclear("the shapes of the indices are not recorded"),
    "vllm::moe_forward": _unclear("the weights of the experts are not among the inputs"),
    "vllm::unified_attention_with_output": _unclear("lengths of the sequences are not recorded"),
    "aiter::mha_batch_prefill": _unclear("lengths of the sequences are not recorded"),
    **dict.fromkeys(
        ("symm_mem::multimem_all_reduce_", "record_param_comms"),
        _unclear("communication has no cost model yet"),
    ),
    "aten::linalg_solve_triangular": _triangular_solve,
    "aten::_conv_depthwise2d": _depthwise,
}
"""What is recorded under a name, by the function that reads it; `name_` falls back to `name`."""

__all__ = ["DTYPES", "RULES", "Recorded", "UnclearError", "recognize"]
