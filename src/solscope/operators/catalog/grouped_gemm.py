"""Rows sorted by expert, each group times the weights of its expert: out[r] = x[r] w[e(r)].

    tensor   2 T n k                       2 FLOP per multiply-add
    bytes    x, out, the offsets (int32), the weights of each expert that has rows

Which experts have rows is not in the shapes: without `active_experts` the bound counts one, and the
expected cost E (1 - (1 - 1/E)^T), which is what T independent uniform choices reach. With `top_k`,
the different experts that each token takes, these are `top_k` and E (1 - (1 - top_k/E)^(T/top_k)).
`weight_bits` is the size of a weight (default: `dtype`); `in_size` and `out_size` count the
elements of x and out that must move (default T k and T n; fewer where gathering, activation or
summing are part of the kernel).
"""

# Also: roles in operators/from_config/products.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import Axes, Cost, element, matrix_pipe
from solscope.operators.tensors import UnclearError


@cost_model(
    "tokens experts n k", optional="dtype active_experts top_k weight_bits in_size out_size"
)
def cost(axes: Axes) -> Cost:
    """The fewest experts: all rows may go to one."""
    return _with_experts(axes, axes.get("active_experts", _fewest(axes)))


def expected(axes: Axes) -> Cost:
    """Uniform routing."""
    experts, tokens = axes["experts"], axes["tokens"]
    top_k = min(axes.get("top_k", 1), experts)
    uniform = experts * (1 - (1 - top_k / experts) ** (tokens / top_k))
    return _with_experts(axes, axes.get("active_experts", uniform))


def _fewest(axes: Axes) -> int:
    return int(min(axes.get("top_k", 1), axes["experts"])) if axes["tokens"] else 0


def _with_experts(axes: Axes, active: float) -> Cost:
    tokens, n, k, size = axes["tokens"], axes["n"], axes["k"], element(axes)
    return Cost(
        flops={matrix_pipe(axes): 2 * tokens * n * k},
        read_bytes={
            "activations": size * axes.get("in_size", tokens * k),
            "weights": axes.get("weight_bits", 8 * size) / 8 * active * n * k,
            "index": 4 * axes["experts"],
        },
        write_bytes={"activations": size * axes.get("out_size", tokens * n)},
    )


def _grouped_mm(call: Recorded) -> OperatorAxes:
    a, b = call.tensor(0), call.tensor(1)
    if len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1]:
        raise UnclearError("only rows by expert times a stack of weights are known")
    axes = {"tokens": a.shape[0], "experts": b.shape[0], "n": b.shape[2], "k": b.shape[1]}
    return "grouped_gemm", {**axes, "dtype": a.dtype}


RECORDED: dict[str, CallRule] = {
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _grouped_mm,
}

TITLE = "Matrix products of rows sorted by expert"
OPERATOR = Operator("grouped_gemm", TITLE, "moe", cost, expected=expected, recorded=RECORDED)
