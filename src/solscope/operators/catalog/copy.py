"""Copy of a tensor, also to another type or layout; concatenation.

    bytes    the source as stored, once; the result once

    host     `host_bytes`, what comes from or goes to the host (default 0)

A source that is broadcast is read once. From or to the host, only the side on the GPU counts.
"""

from __future__ import annotations

import re
from typing import Any

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import (
    CallRule,
    OperatorAxes,
    Recorded,
    recorded_as,
    whole_numbers,
)
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import Tensor, UnclearError


@cost_model("read_bytes write_bytes", optional="host_bytes")
def cost(axes: Axes) -> Cost:
    """No arithmetic."""
    return Cost(
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
        host_bytes=axes.get("host_bytes", 0),
    )


def _copy(call: Recorded) -> OperatorAxes:
    to, source = call.tensor(0), call.tensor(1)
    read, written = min(source.stored, to.numel) * source.size, to.bytes
    if "HtoD" in call.kernel or "Host -> Device" in call.kernel:
        return "copy", {"read_bytes": 0, "write_bytes": written, "host_bytes": written}
    if "DtoH" in call.kernel or "Device -> Host" in call.kernel:
        return "copy", {"read_bytes": read, "write_bytes": 0, "host_bytes": read}
    return "copy", {"read_bytes": read, "write_bytes": written}


_OPAQUE = re.compile(r"OpaqueType<(\d+)")


def _cat(call: Recorded) -> OperatorAxes:
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


def _one_element(call: Recorded) -> OperatorAxes:
    """One element to the host."""
    return "copy", {"read_bytes": call.tensor(0).size, "write_bytes": 0}


RECORDED: dict[str, CallRule] = {
    "aten::copy_": _copy,
    "aten::cat": _cat,
    **recorded_as("aten::_local_scalar_dense aten::_assert_async", _one_element),
}

TITLE = "Copy, also to another type or layout"
OPERATOR = Operator("copy", TITLE, "copy", cost, recorded=RECORDED)
