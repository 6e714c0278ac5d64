"""One function per element, copies and fills."""

from __future__ import annotations

import math
import re
from typing import Any

from solscope.operators.recorded.call import Found, Recorded, Rule, whole_numbers
from solscope.operators.tensors import Tensor, UnclearError, broadcast, result_size

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
        return "copy", {"read_bytes": 0, "write_bytes": written, "host_bytes": written}
    if "DtoH" in call.kernel or "Device -> Host" in call.kernel:
        return "copy", {"read_bytes": read, "write_bytes": 0, "host_bytes": read}
    return "copy", {"read_bytes": read, "write_bytes": written}


_OPAQUE = re.compile(r"OpaqueType<(\d+)")


def _cat(call: Recorded) -> Found:
    """The types in a list of tensors are not recorded; the kernel's name has their size."""
    size = _OPAQUE.search(call.kernel)
    shapes = call.dims[0] if call.dims else None
    if size is None or not isinstance(shapes, list) or not all(map(whole_numbers, shapes)):
        raise UnclearError("the type of the tensors in a list is not recorded")
    strides = call.strides[0] if call.strides else None
    steps: list[Any] = strides if isinstance(strides, list) else []
    steps = steps if len(steps) == len(shapes) else [None] * len(shapes)
    parts = [
        Tensor(tuple(shape), "", tuple(step) if whole_numbers(step) else None)
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


def _one_element(call: Recorded) -> Found:
    """One element to the host."""
    return "copy", {"read_bytes": call.tensor(0).size, "write_bytes": 0}


RULES: dict[str, Rule] = {
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
    "aten::_local_scalar_dense": _one_element,
    "aten::_assert_async": _one_element,
}
