"""Convolution: out[n, k, p] = Σ w[k, c, j] x[n, c, p s + j], in one to three dimensions.

    tensor   2 N K P C / G                 overlapping windows: fast algorithms share products
    tensor   2 N K P (C / G) J             windows that do not overlap (1 x 1, patches)
    bytes    x, w and out once; the input only where a window reaches, at least N C P of it

N images, C channels in and K out, P positions out, J taps, G groups. Winograd's and Fourier
algorithms need fewer products than the definition, at the limit one per tap less; `expected` counts
the definition. `passes` is 2 for a backward call that computes both gradients (default 1).
"""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded, recorded_as
from solscope.operators.calls.matrices import matrix_dtype
from solscope.operators.cost import Axes, Cost, element, matrix_pipe
from solscope.operators.tensors import Tensor, UnclearError

_AXES = "batch in_channels out_channels in_positions out_positions taps"


@cost_model(_AXES, optional="groups overlapping passes dtype")
def cost(axes: Axes) -> Cost:
    """The fewest products that any algorithm needs."""
    return _cost(axes, 1 if axes.get("overlapping", True) else axes["taps"])


def expected(axes: Axes) -> Cost:
    """By the definition."""
    return _cost(axes, axes["taps"])


def _cost(axes: Axes, taps: int) -> Cost:
    batch, passes, size = axes["batch"], axes.get("passes", 1), element(axes)
    per_group = axes["in_channels"] // axes.get("groups", 1)
    products = batch * axes["out_channels"] * axes["out_positions"] * per_group * taps
    seen = min(axes["in_positions"], axes["out_positions"] * axes["taps"])
    weights = size * axes["out_channels"] * per_group * axes["taps"]
    inputs = size * batch * axes["in_channels"] * seen
    outputs = size * batch * axes["out_channels"] * axes["out_positions"]
    if passes == 1:
        reads, writes = {"activations": inputs, "weights": weights}, {"activations": outputs}
    else:  # gradient of the output, input and weights in; gradients of the latter two out
        reads = {"activations": inputs + outputs, "weights": weights}
        writes = {"activations": inputs, "weights": weights}
    return Cost({matrix_pipe(axes): 2 * passes * products}, reads, writes)


def _numbers(text: str, count: int) -> list[int]:
    """A list argument; one number stands for all dimensions."""
    numbers = [int(number) for number in re.findall(r"-?\d+", text)]
    if len(numbers) not in (1, count):
        raise UnclearError("stride, padding or dilation is not recorded")
    return numbers * count if len(numbers) == 1 else numbers


def _axes(x: Tensor, weight: Tensor, call: Recorded, first: int, groups: str) -> OperatorAxes:
    """`first` is the argument with the padding, followed by stride and dilation."""
    count = len(x.shape) - 2
    padding, stride, dilation = (_numbers(call.scalar(first + i), count) for i in range(3))
    taps = weight.shape[2:]
    sizes = zip(x.shape[2:], padding, dilation, taps, stride, strict=True)
    out = [max(0, (n + 2 * p - d * (t - 1) - 1) // s + 1) for n, p, d, t, s in sizes]
    return "convolution", {
        "batch": x.shape[0],
        "in_channels": x.shape[1],
        "out_channels": weight.shape[0],
        "in_positions": math.prod(x.shape[2:]),
        "out_positions": math.prod(out),
        "taps": math.prod(taps),
        "groups": int(groups),
        "overlapping": any(t > s for t, s in zip(taps, stride, strict=True)),
        "dtype": matrix_dtype(x, call.kernel),
    }


def _forward(first: int, groups: int) -> CallRule:
    def rule(call: Recorded) -> OperatorAxes:
        return _axes(call.tensor(0), call.tensor(1), call, first, call.scalar(groups))

    return rule


def _backward(call: Recorded) -> OperatorAxes:
    """Gradient of the output, input, weight, bias sizes, stride, padding, dilation, transposed."""
    if call.scalar(7) != "False":
        raise UnclearError("transposed convolutions are not known")
    wanted = re.findall(r"True|False", call.scalar(10))[:2]
    reordered = ["", "", call.scalar(5), call.scalar(4), call.scalar(6)]
    shifted = replace(call, concrete=reordered)
    name, axes = _axes(call.tensor(1), call.tensor(2), shifted, 2, call.scalar(9))
    return name, {**axes, "passes": max(1, wanted.count("True"))}


RECORDED: dict[str, CallRule] = {
    "aten::cudnn_convolution": _forward(2, 5),
    **recorded_as("aten::miopen_convolution aten::miopen_depthwise_convolution", _forward(3, 6)),
    "aten::convolution_backward": _backward,
}

TITLE = "Convolution"
OPERATOR = Operator("convolution", TITLE, "conv", cost, expected=expected, recorded=RECORDED)
