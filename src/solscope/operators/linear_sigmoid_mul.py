"""A linear layer whose sigmoid gates another tensor: out = sigmoid(x Wᵀ + b) * y.

    tensor   2 T H O                       the product
    vector   2 T O                         bias and gate
    sfu      T O                           exponential of the sigmoid
    bytes    x, W, b, y, out

Real models gate with one column (O = 1, broadcast over y of width H); the suite has O = 4096.
Published: the same, less one addition per output.
"""

from __future__ import annotations

from solscope.operators.base import Axes, Cost, Operator, Published, element, tensor_pipe


def cost(axes: Axes) -> Cost:
    """Each tensor once."""
    tokens, hidden, out, size = axes["tokens"], axes["hidden"], axes["out"], element(axes)
    return Cost(
        flops={
            tensor_pipe(axes): 2 * tokens * hidden * out,
            "vector.fp32": 2 * tokens * out,
            "sfu": tokens * out,
        },
        read_bytes={
            "weights": size * (hidden * out + out),
            "activations": size * (tokens * hidden + tokens * out),
        },
        write_bytes={"activations": size * tokens * out},
    )


def published(axes: Axes) -> Published:
    """As published."""
    tokens, hidden, out = axes["tokens"], axes["hidden"], axes["out"]
    return Published(
        flops={"bf16": 2 * tokens * hidden * out + tokens * out},
        read_bytes=2 * (tokens * hidden + hidden * out + out + tokens * out),
        write_bytes=2 * tokens * out,
    )


OPERATOR = Operator(
    name="linear_sigmoid_mul",
    title="Linear layer, sigmoid, gate",
    category="gemm",
    axes=("tokens", "hidden", "out"),
    optional=("dtype",),
    cost=cost,
    suite_id="atrex_017",
    published=published,
)
