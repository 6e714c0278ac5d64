"""Reduction along some dimensions: sum, mean, maximum, argmax, histogram.

vector   one operation per element     `flop` (default 0)
bytes    the input as stored, once; the result once
"""

from __future__ import annotations

import math
import re

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost


@cost_model("read_bytes write_bytes", optional="flop")
def cost(axes: Axes) -> Cost:
    """Each element once."""
    return Cost(
        flops={"vector.fp32": axes.get("flop", 0)},
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


def _reduced(shape: tuple[int, ...], dims: str) -> int:
    """Elements left when the dimensions listed in `dims` are reduced; all of them when empty."""
    listed = [int(number) for number in re.findall(r"-?\d+", dims)]
    gone = {d % len(shape) for d in listed} if shape and listed else set(range(len(shape)))
    return math.prod(length for axis, length in enumerate(shape) if axis not in gone)


def _reduce(size: int | None = None) -> CallRule:
    """A reduction over the dimensions of argument 1; `size` bytes per result where known."""

    def rule(call: Recorded) -> OperatorAxes:
        x = call.tensor(0)
        left = _reduced(x.shape, call.scalar(1))
        flop = x.numel - left if x.floating else 0
        written = left * (size or x.size)
        return "reduce", {"flop": flop, "read_bytes": x.bytes, "write_bytes": written}

    return rule


def _histogram(call: Recorded) -> OperatorAxes:
    x, bins = call.tensor(0), call.scalar(1)
    written = x.size * int(bins) if bins.isdigit() else 0
    return "reduce", {"read_bytes": x.bytes, "write_bytes": written}


RECORDED: dict[str, CallRule] = {
    **{f"aten::{name}": _reduce() for name in ("sum", "mean", "max", "min", "amax", "amin")},
    **{f"aten::{name}": _reduce(1) for name in ("any", "all")},
    **{f"aten::{name}": _reduce(8) for name in ("argmax", "argmin")},
    "aten::histc": _histogram,
}

TITLE = "Sum, mean, maximum along some dimensions"
OPERATOR = Operator("reduce", TITLE, "reduce", cost, recorded=RECORDED)
