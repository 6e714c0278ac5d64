"""Sort of rows, or their k largest elements, with indices.

    bytes    the input once; the values and indices that come out once

Comparisons are not counted: how many are needed depends on the method.
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

import math
import re

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost
from solscope.operators.tensors import UnclearError


@cost_model("read_bytes value_bytes index_bytes")
def cost(axes: Axes) -> Cost:
    """Input in, values and indices out."""
    return Cost(
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["value_bytes"], "index": axes["index_bytes"]},
    )


def _topk(call: Recorded) -> OperatorAxes:
    x, count = call.tensor(0), call.scalar(1)
    if not count.isdigit() or call.scalar(2) not in ("-1", str(len(x.shape) - 1)) or not x.shape:
        raise UnclearError("how many of each row are taken is not recorded")
    taken = math.prod(x.shape[:-1]) * int(count)
    return "sort", {"read_bytes": x.bytes, "value_bytes": x.size * taken, "index_bytes": 8 * taken}


def _sort(call: Recorded) -> OperatorAxes:
    x = call.tensor(0)
    written = {"value_bytes": x.size * x.numel, "index_bytes": 8 * x.numel}
    return "sort", {"read_bytes": x.bytes, **written}


_OTHER_PROGRAM = "its kernel and inputs are not those of triton_kernels"
_INTEGERS = ("short", "short int", "int", "long", "long int")
_ROUTER = re.compile(r"_topk(_forward)?")
_BY_EXPERT = re.compile(r"_sum_bitmatrix_rows|_combined_routing_\w+")
"""Kernels of triton_kernels: any program may call an operator `TopK` or `SortTokens`."""


def _index_size(count: int) -> int:
    """The fewest bytes that number `count` things: the type of an output is not recorded."""
    return next(size for size in (1, 2, 4, 8) if count <= 1 << 8 * size)


def _best_experts(call: Recorded) -> OperatorAxes:
    """The router of triton_kernels: scores [tokens, experts] and k."""
    scores, count = call.tensor(0), call.scalar(1)
    alone = not any(call.has(index) for index in range(1, len(call.types)))
    if not (_ROUTER.fullmatch(call.kernel) and scores.floating and alone):
        raise UnclearError(_OTHER_PROGRAM)
    tokens, experts = scores.shape
    if not count.isdigit() or not 0 < int(count) <= experts:
        raise UnclearError("how many experts a token takes is not recorded")
    taken = tokens * int(count)
    written = {"value_bytes": scores.size * taken, "index_bytes": _index_size(experts) * taken}
    return "sort", {"read_bytes": scores.bytes, **written}


def _slots_by_expert(call: Recorded) -> OperatorAxes:
    """Weights and ids of the experts of each token; weights and both orders come out."""
    weights, ids = call.tensor(0), call.tensor(1)
    numbers = weights.floating and ids.type in _INTEGERS
    if not (_BY_EXPERT.fullmatch(call.kernel) and numbers):
        raise UnclearError(_OTHER_PROGRAM)
    if weights.shape != ids.shape:
        raise UnclearError("weights and ids of the experts have different shapes")
    orders = 2 * _index_size(ids.numel) * ids.numel
    written = {"value_bytes": weights.bytes, "index_bytes": orders}
    return "sort", {"read_bytes": weights.bytes + ids.bytes, **written}


RECORDED: dict[str, CallRule] = {
    "aten::topk": _topk,
    "aten::sort": _sort,
    "TopK": _best_experts,
    "SortTokens": _slots_by_expert,
}

TITLE = "Sort, or the k largest"
OPERATOR = Operator("sort", TITLE, "sort_scan", cost, recorded=RECORDED)
