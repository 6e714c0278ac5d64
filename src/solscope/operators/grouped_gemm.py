"""Rows sorted by expert, each group times the weights of its expert: out[r] = x[r] w[e(r)].

    tensor   2 T n k                       2 FLOP per multiply-add
    bytes    x, out, the offsets (int32), the weights of each expert that has rows

Which experts have rows is not in the shapes: without `active_experts` the bound counts one, and the
expected cost E (1 - (1 - 1/E)^T), which is what T independent uniform choices reach.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, element
from solscope.operators.dense_gemm import matrix_pipe


def cost(axes: Axes) -> Cost:
    """The fewest experts: all rows may go to one."""
    return _with_experts(axes, axes.get("active_experts", min(1, axes["tokens"])))


def expected(axes: Axes) -> Cost:
    """Uniform routing."""
    experts, tokens = axes["experts"], axes["tokens"]
    uniform = experts * (1 - (1 - 1 / experts) ** tokens)
    return _with_experts(axes, axes.get("active_experts", uniform))


def _with_experts(axes: Axes, active: float) -> Cost:
    tokens, n, k, size = axes["tokens"], axes["n"], axes["k"], element(axes)
    return Cost(
        flops={matrix_pipe(axes): 2 * tokens * n * k},
        read_bytes={
            "activations": size * tokens * k,
            "weights": size * active * n * k,
            "index": 4 * axes["experts"],
        },
        write_bytes={"activations": size * tokens * n},
    )


OPERATOR = Operator(
    name="grouped_gemm",
    title="Matrix products of rows sorted by expert",
    category="moe",
    axes=("tokens", "experts", "n", "k"),
    optional=("dtype", "active_experts"),
    cost=cost,
    expected=expected,
)
