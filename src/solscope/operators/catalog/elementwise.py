"""One function of each element: out = f(x, y, ...), inputs broadcast to the shape of the result.

    vector   f per element                 `flop` (default 0); fp32 at most
    sfu      special functions             `sfu` per element (default 0)
    bytes    each input as stored, once; the result once

An input that is broadcast is read once. Where a profile shows a product of two inputs with equal
shape, type and strides, they may be one tensor (x * x), and one is counted.
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

import math

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import UnclearError, broadcast, result_size


@cost_model("elements read_bytes write_bytes", optional="flop sfu")
def cost(axes: Axes) -> Cost:
    """Inputs in, result out."""
    return Cost(
        flops={
            "vector.fp32": axes["elements"] * axes.get("flop", 0),
            "sfu": axes["elements"] * axes.get("sfu", 0),
        },
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isin"
_UNARY = "neg abs relu floor ceil round trunc sign square bitwise_not clamp clamp_min clamp_max pow"
_BINARY = (
    "add sub rsub mul div true_divide floor_divide remainder fmod maximum minimum "
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
)
_SPECIAL = "silu sigmoid exp exp2 log log2 sqrt rsqrt reciprocal sin cos tanh gelu erf softplus"
_FLOATING_RESULT = ("aten::div", "aten::true_divide")


def _elementwise(inputs: int, sfu: int = 0, result: int | None = None) -> CallRule:
    """`inputs` tensors or scalars at the front; `result` bytes per element where known."""

    def rule(call: Recorded) -> OperatorAxes:
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


def _where(call: Recorded) -> OperatorAxes:
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


def _masked_fill_in_place(call: Recorded) -> OperatorAxes:
    """Elements that keep their value need not move: perhaps none changes."""
    mask = call.tensor(1)
    return "elementwise", {"elements": mask.numel, "read_bytes": mask.bytes, "write_bytes": 0}


def _rotary(call: Recorded) -> OperatorAxes:
    """Positions, q and k in, q and k out; which rows of the table are read is not recorded."""
    positions, q, k = (call.tensor(index) for index in range(3))
    moved = q.bytes + k.bytes
    axes = {"elements": q.numel + k.numel, "flop": 3, "read_bytes": moved + positions.bytes}
    return "elementwise", {**axes, "write_bytes": moved}


def _quant(call: Recorded) -> OperatorAxes:
    out, x = call.tensor(0), call.tensor(1)
    axes = {"elements": x.numel, "flop": 1, "read_bytes": x.bytes}
    return "elementwise", {**axes, "write_bytes": out.bytes}


RECORDED: dict[str, CallRule] = {
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
    "_C::rotary_embedding": _rotary,
    "sgl_kernel::rotary_embedding": _rotary,
    "_C::static_scaled_fp8_quant": _quant,
    "_C::dynamic_scaled_fp8_quant": _quant,
    "_C::dynamic_per_token_scaled_fp8_quant": _quant,
}

TITLE = "One function of each element"
OPERATOR = Operator("elementwise", TITLE, "elementwise", cost, recorded=RECORDED)
