"""A kernel that Inductor fused from pointwise operators and reductions.

    bytes    what it must touch of its tensors, once

The operators in its name tell how: without one that picks parts of a tensor (slice, split, index,
embedding, ...), of each tensor as many elements as the kernel has, or all if there are fewer. With
one, only tensors with exactly as many elements as the kernel, and indices, count. A tensor that is
changed in place counts once, because the record does not say which are. Arithmetic is left out.
"""

from __future__ import annotations

import math
import re

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import Tensor, UnclearError


@cost_model("elements read_bytes write_bytes")
def cost(axes: Axes) -> Cost:
    """Tensors once; the last one counts as written."""
    return Cost(
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


_KERNEL = re.compile(r"triton_(?:poi|red|per|mix|spl)_fused(?P<fused>_\w*)")
_OF_PARTS = re.compile(
    r"slice|split|select|unbind|chunk|narrow|strided|unfold|diagonal|tri[lu]|index|embedding|gather"
    r"|scatter|take|masked|where|sort|topk"
)
_INTEGERS = ("int", "long int", "long", "short", "short int")


def fused_kernel(call: Recorded) -> OperatorAxes | None:
    """The axes of a kernel of Inductor, recorded under its own name; null for anything else."""
    kernel = _KERNEL.fullmatch(call.name)
    if kernel is None:
        return _quantization(call)
    tensors = call.tensors(len(call.types))
    sizes = [t.numel for t in tensors]
    elements = _elements(call, sizes)
    if _OF_PARTS.search(kernel["fused"]):
        touched = [_of_parts(t, elements) for t in tensors]
    else:
        touched = [min(t.numel, elements) * t.size for t in tensors]
    if not any(touched):
        raise UnclearError("which parts of its tensors the kernel touches is not recorded")
    axes = {"elements": elements, "read_bytes": sum(touched[:-1])}
    return "fused_elementwise", {**axes, "write_bytes": touched[-1]}


def _quantization(call: Recorded) -> OperatorAxes | None:
    """A Triton kernel that quantizes, recorded under its own name and a number: all tensors once.

    Values come in, narrower values and scales go out; which are which does not matter here.
    """
    if call.category != "quant" or not call.names_kernel:
        return None
    tensors = call.tensors(len(call.types))
    sizes = [t.bytes for t in tensors]
    axes = {"elements": max(t.numel for t in tensors), "read_bytes": sum(sizes[:-1])}
    return "fused_elementwise", {**axes, "write_bytes": sizes[-1]}


def _elements(call: Recorded, sizes: list[int]) -> int:
    """How many elements the kernel runs over: the product of its last arguments.

    Sizes of dynamic shapes may stand before them, so a product must be the size of a tensor; the
    largest argument is a lower limit.
    """
    counts = [int(text) for text in call.concrete if text.isdigit() and len(text) < 16]
    if not counts:
        raise UnclearError("the number of elements of the kernel is not recorded")
    products = (math.prod(counts[start:]) for start in range(len(counts)))
    return next((n for n in products if n in sizes), max(counts))


def _of_parts(tensor: Tensor, elements: int) -> int:
    whole = tensor.numel == elements
    index = tensor.type in _INTEGERS and len(tensor.shape) == 1 and tensor.numel <= elements
    return tensor.numel * tensor.size if whole or index else 0


TITLE = "Pointwise operators and reductions fused by Inductor"
OPERATOR = Operator("fused_elementwise", TITLE, "elementwise", cost)
