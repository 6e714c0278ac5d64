"""Triangular systems and short convolutions."""

from __future__ import annotations

import math
import re

from solscope.operators.recorded.call import Found, Recorded, Rule
from solscope.operators.tensors import UnclearError


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
    "aten::linalg_solve_triangular": _triangular_solve,
    "aten::_conv_depthwise2d": _depthwise,
}
